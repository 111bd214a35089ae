"""Batch job: what Slurm is asked for."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tfdist.errors import UsageError
from tfdist.multihost.slurm.sbatch_options import check_owned, value_of
from tfdist.multihost.slurm.time_limit import limit_seconds

_SAVING_SECONDS = 30
"""After `--grace`, for what ends a job once its workers have stopped."""
_LATE_SECONDS = 60
"""Slurm sends a signal up to a minute before its time."""


def job_name(text: str) -> str:
    """A name for a job and its files, from that of what it trains."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._") or "run"


@dataclass(frozen=True)
class BatchJob:
    """A training as a job of Slurm.

    Attributes:
        name: The job's name.
        arguments: All that follows `tfdist train`, but for the run directory and `--resume`.
        cwd: The working directory of the job.
        python: The Python that runs tfdist on the nodes.
        nodes: How many.
        tasks_per_node: Workers on each of them.
        gpus_per_node: GPUs of each; None to ask for none.
        time: The time limit, as sbatch takes it; None for the partition's.
        partition: The partition; None for Slurm's default.
        options: Further options of sbatch, one argument each.
        run_dir: The run directory; None for one that is named after the job.
        resume: `auto` or `must`: every start but the first one resumes.
        grace: Seconds that the workers have to stop at a step.
        start_timeout: Seconds that the launchers wait for one another.

    Raises:
        UsageError: A value is not one that a job can have.
    """

    name: str
    arguments: tuple[str, ...]
    cwd: str
    python: str
    nodes: int = 1
    tasks_per_node: int = 1
    gpus_per_node: int | None = None
    time: str | None = None
    partition: str | None = None
    options: tuple[str, ...] = ()
    run_dir: str | None = None
    resume: str = "auto"
    grace: float = 30.0
    start_timeout: float = 120.0

    def __post_init__(self) -> None:
        for text in (self.name, self.cwd, self.time or "", self.partition or "", *self.options):
            if any(ord(letter) < 32 for letter in text):
                raise UsageError(f"A line of a batch script ends where a line does. Received: {text!r}")
        if self.run_dir == "":
            raise UsageError("--run-dir is empty. Expected a directory, or no --run-dir at all. Received: --run-dir ''")
        self._check_options()
        self._check_devices()
        limit = limit_seconds(self.time) if self.time is not None else None
        if limit is not None and limit <= self.signal_seconds + _LATE_SECONDS:
            raise UsageError(
                f"The workers are asked to stop and save {self.signal_seconds} s before the time is over (--grace "
                f"{self.grace:g} and {_SAVING_SECONDS} s to end), and Slurm may be {_LATE_SECONDS} s early. Expected "
                f"more than {self.signal_seconds + _LATE_SECONDS} s, with time to train. Received: --time {self.time}. "
                "Give more time, or a shorter --grace."
            )

    def _check_options(self) -> None:
        if ":" in self.options:
            raise UsageError(
                "--sbatch takes the options of one kind of node, and `:` separates the parts of a heterogeneous job. "
                "Expected options alone. For such a job, write a script that says `srun tfdist train ...`."
            )
        stray = next((word for word in self.options if not word.startswith("-")), None)
        if stray is not None:
            raise UsageError(
                f"--sbatch takes options of sbatch, each as one word: --sbatch '--account=physics --mem=64G'. "
                f"Received: {stray!r}. Write --NAME=VALUE."
            )
        check_owned(self.options)

    def _check_devices(self) -> None:
        if self.gpus_per_node is not None and self.gpus_per_node < self.tasks_per_node:
            raise UsageError(
                f"Every worker needs a GPU of its own. Expected --gpus-per-node of at least {self.tasks_per_node}. "
                f"Received: --gpus-per-node {self.gpus_per_node} --tasks-per-node {self.tasks_per_node}"
            )

    @property
    def signal_seconds(self) -> int:
        """How long before the end of its time the job is asked to stop."""
        return math.ceil(self.grace) + _SAVING_SECONDS

    @property
    def is_array(self) -> bool:
        """Whether the job is an array of jobs."""
        return value_of(self.options, "array") is not None

    @property
    def log(self) -> str:
        """The file of the job's output, with Slurm's signs for its number."""
        return value_of(self.options, "output") or f"{self.name}-{'%A_%a' if self.is_array else '%j'}.out"

    def log_of(self, number: str, task: str) -> str:
        """Where the output of a job goes; what only its nodes know stays as Slurm's sign.

        Args:
            number: The job's.
            task: Of the array; empty where the job is none.
        """
        known = {"%x": value_of(self.options, "job-name") or self.name, "%A": number, "%%": "%"}
        # Each task of an array is a job with a number of its own, which nobody knows yet.
        known |= {"%a": task} if task else {"%j": number}
        return re.sub("%.", lambda sign: known.get(sign[0], sign[0]), self.log)
