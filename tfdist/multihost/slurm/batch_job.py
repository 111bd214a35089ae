"""Batch job: what Slurm is asked for, and the script that says it, which is printed or submitted.

Time limits are in the forms that sbatch takes (https://slurm.schedmd.com/sbatch.html#OPT_time). Of options that a user
gives by `--sbatch` it knows which the script has itself, and what the others say.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfdist.errors import UsageError
from tfdist.rundir.run_dir_creation import DEFAULT_PARENT

_SAVING_SECONDS = 30
"""After `--grace`, for what ends a job once its workers have stopped."""

_LATE_SECONDS = 60
"""Slurm sends a signal up to a minute before its time."""

_FORMS = (
    re.compile(r"(?P<minutes>[0-9]{1,9})(:(?P<seconds>[0-9]{1,2}))?"),
    re.compile(r"(?P<hours>[0-9]{1,6}):(?P<minutes>[0-9]{1,2}):(?P<seconds>[0-9]{1,2})"),
    re.compile(r"(?P<days>[0-9]{1,6})-(?P<hours>[0-9]{1,2})(:(?P<minutes>[0-9]{1,2})(:(?P<seconds>[0-9]{1,2}))?)?"),
)
_SECONDS = {"days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1}
_REQUEUED = "no option: the script requeues the job, and --max-requeues N of `tfdist train` bounds it"

_OWNED = {
    "nodes": "--nodes N",
    "ntasks": "--nodes N and --tasks-per-node N",
    "ntasks-per-node": "--tasks-per-node N",
    "tasks-per-node": "--tasks-per-node N",
    "gpus-per-node": "--gpus-per-node N",
    "time": "--time LIMIT",
    "partition": "--partition NAME",
    "chdir": "no option: call tfdist in that folder (`cd DIR`)",
    "signal": "--grace S, by which the script sets when the workers are asked to stop",
    "distribution": "no option: tasks are distributed in blocks, as the list of workers needs it",
    "requeue": _REQUEUED,
    "no-requeue": _REQUEUED,
    "no-kill": "no option: Slurm requeues the job when a node is lost, and without the first node it would stand still "
    "until its time is over",
    "open-mode": "no option: the log is appended to, so that a job that is requeued keeps it",
}
"""Long name -> what to give instead to tfdist."""

_LONG_OF = {
    **{"N": "nodes", "n": "ntasks", "t": "time", "p": "partition", "D": "chdir", "m": "distribution"},
    **{"o": "output", "a": "array", "J": "job-name", "k": "no-kill"},
}
_WHOLE = frozenset(_OWNED) | {"gpus"}
"""Names that are no abbreviation of longer ones."""

_SHORT = re.compile(r"-[HOQWsuv]*(?P<letter>[A-Za-z])(?P<value>.*)")
"""Letters that take no value may stand before one that does."""
_LEAVE_SECONDS = 90
"""More than launchers take to end, once all workers have: these have a minute to leave."""
_KILL_SECONDS = 60
"""After that, for what srun does to end them."""
_COPY_SECONDS = 3600
"""Seconds that launchers that copy what is left of a run that has failed may take to end."""
_LASTING = {"--min-workers", "--copy-to"}
"""With these, launchers go on without those that have ended, or copy what is left for as long as that takes."""
_TEMPLATE = r"""#!/bin/bash
# Written by `tfdist launch --on slurm`.
{options}

# The same in every start of the job, so that it goes on where it was.
run_dir={run_dir}

# A secret of this start, by which its launchers know one another; only their environment has it.
: "${{TFDIST_TOKEN:=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')}}"
export TFDIST_TOKEN
# After `sbatch --export=NONE` srun would pass nothing on, the secret neither.
export SLURM_EXPORT_ENV=ALL
# A step does not get the job's --cpus-per-task by itself.
if [ -n "${{SLURM_CPUS_PER_TASK:-}}" ]; then export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"; fi

# Slurm sends USR1 when the time is nearly over. The workers then stop after a step and save, srun ends with 143, and
# the job goes back into the queue. A job that is cancelled does not, nor one without progress, which ends with 4.
again=
trap 'again=1; scancel --signal=TERM "$SLURM_JOB_ID"' USR1
trap : TERM
# Once the run has failed, its launchers end by themselves. Of one whose node was cut off for a while srun may never
# hear that, and would wait for ever.
failed() {{ [ -e "$run_dir/failure.json" ] && [ "$(stat -c %i.%Y "$run_dir/failure.json")" != "$before" ]; }}
before=$(stat -c %i.%Y "$run_dir/failure.json" 2>/dev/null)

# In a session of its own: SIGTERM to this script must not reach srun, which would kill the step at once.
setsid {step} &
step=$!
(until failed; do sleep 5; done; sleep {patience}; kill -KILL -- "-$step") </dev/null >/dev/null 2>&1 &
watch=$!
while kill -0 "$step" 2>/dev/null; do wait "$step"; done
wait "$step"
code=$?
kill "$watch"
if failed && [ "$code" -eq 137 ]; then
  echo "the run has failed, and srun did not end for {patience} s: it was ended" >&2
  code=4
fi
if [ -n "$again" ] && [ "$code" -eq 143 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$code"
"""


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
        """Seconds before the end of its time at which the job is asked to stop."""
        return math.ceil(self.grace) + _SAVING_SECONDS

    @property
    def is_array(self) -> bool:
        """True if the job is an array of jobs."""
        return value_of(self.options, "array") is not None

    @property
    def log(self) -> str:
        """The file of the job's output, with Slurm's signs for its number."""
        return value_of(self.options, "output") or f"{self.name}-{'%A_%a' if self.is_array else '%j'}.out"

    def log_of(self, number: str, task: str) -> str:
        """Returns where the output of a job goes; what only its nodes know stays as Slurm's sign.

        Args:
            task: Of the array; empty where the job is none.
        """
        known = {"%x": value_of(self.options, "job-name") or self.name, "%A": number, "%%": "%"}
        # Each task of an array is a job with a number of its own, which nobody knows yet.
        known |= {"%a": task} if task else {"%j": number}
        return re.sub("%.", lambda sign: known.get(sign[0], sign[0]), self.log)


def limit_seconds(text: str) -> int | None:
    """The seconds of `90`, `90:00`, `1:30:00`, `2-12` or `2-12:30:00`; None for no limit, and for other forms."""
    for form in _FORMS:
        found = form.fullmatch(text.strip())
        if found is not None:
            return sum(_SECONDS[name] * int(value) for name, value in found.groupdict().items() if value) or None
    return None


def check_owned(options: Iterable[str]) -> None:
    """Checks that the script does not have the same options, which stand later in it and count.

    Raises:
        UsageError: It has one; the text says what to give instead.
    """
    for word in options:
        name = next((name for name in _OWNED if _value(word, name) is not None), None)
        if name is not None:
            raise UsageError(
                f"The script of the job decides about --{name} itself. Expected {_OWNED[name]}. "
                f"Received: --sbatch {word}"
            )


def value_of(options: Iterable[str], name: str) -> str | None:
    """Returns what options say for a long name of sbatch's, where the last one counts; None where none does."""
    found = [value for value in (_value(word, name) for word in options) if value is not None]
    return found[-1] if found else None


def _value(word: str, name: str) -> str | None:
    """The value of an option if it has that long name, or is short for it: `--part=gpu` and `-pgpu` for partition."""
    if word.startswith("--"):
        said, _, value = word[2:].partition("=")
        is_short = said != "" and name.startswith(said) and said not in _WHOLE
        return value if said == name or is_short else None
    short = _SHORT.fullmatch(word)
    return short["value"].removeprefix("=") if short is not None and _LONG_OF.get(short["letter"]) == name else None


def batch_script(job: BatchJob) -> str:
    """The script, as sbatch takes it."""
    options = "\n".join(f"#SBATCH {shlex.quote(option)}" for option in _sbatch_options(job))
    step = [*layout_options(job.nodes, job.tasks_per_node), *ending_options(job.arguments, job.start_timeout)]
    command = shlex.join(["srun", *step, job.python, "-m", "tfdist", "train"])
    rest = shlex.join([f"--resume={job.resume}", *job.arguments])
    return _TEMPLATE.format(
        options=options,
        run_dir=_run_dir(job),
        step=f'{command} --run-dir="$run_dir" {rest}',
        patience=_COPY_SECONDS if _is_lasting(job.arguments) else _end_seconds(job.start_timeout) + _KILL_SECONDS,
    )


def layout_options(nodes: int, tasks_per_node: int) -> list[str]:
    """Options of srun for a step with so many workers, whatever its job has asked for besides."""
    tasks = nodes * tasks_per_node
    return [f"--nodes={nodes}", f"--ntasks={tasks}", f"--ntasks-per-node={tasks_per_node}", "--distribution=block"]


def ending_options(arguments: Sequence[str], start_timeout: float) -> list[str]:
    """Options of srun that bound how long it waits for launchers once the first one has ended.

    A launcher that is stopped does not end by itself, and of one whose node was cut off for a while srun may never hear
    that it has ended.

    Args:
        start_timeout: Seconds that launchers wait for one another.
    """
    return [] if _is_lasting(arguments) else [f"--wait={_end_seconds(start_timeout)}"]


def _end_seconds(start_timeout: float) -> int:
    return math.ceil(start_timeout) + _LEAVE_SECONDS


def _is_lasting(arguments: Sequence[str]) -> bool:
    return not _LASTING.isdisjoint(argument.partition("=")[0] for argument in arguments)


def _sbatch_options(job: BatchJob) -> list[str]:
    """Returns what the job itself needs stands last, where it counts; `BatchJob` has refused others of these."""
    asked = {"partition": job.partition, "time": job.time, "gpus-per-node": job.gpus_per_node}
    return [
        f"--job-name={job.name}",
        f"--output={job.log}",
        *job.options,
        *(f"--{name}={value}" for name, value in asked.items() if value is not None),
        f"--chdir={job.cwd}",
        f"--nodes={job.nodes}",
        f"--ntasks-per-node={job.tasks_per_node}",
        "--requeue",
        "--open-mode=append",
        f"--signal=B:USR1@{job.signal_seconds}",
    ]


def _run_dir(job: BatchJob) -> str:
    """The run directory in the shell's words: one for each job of an array, and the same after a requeue."""
    if job.run_dir is not None:
        return shlex.quote(job.run_dir) + "${SLURM_ARRAY_TASK_ID:+-$SLURM_ARRAY_TASK_ID}"
    number = "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"
    return f"{shlex.quote(f'{DEFAULT_PARENT}/{job.name}-')}{number}"
