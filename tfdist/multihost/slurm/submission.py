"""Submission: a batch job goes to Slurm, with what Slurm does not say; or srun runs it in an allocation at once."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from tfdist.bounded_process import run
from tfdist.errors import FormingError, UsageError
from tfdist.multihost.slurm.batch_job import BatchJob, batch_script, ending_options, layout_options
from tfdist.net import shared_token
from tfdist.rundir.run_dir_creation import DEFAULT_PARENT
from tfdist.text import format_count

_SECONDS = 120.0
"""Seconds that sbatch may take; a busy controller lets it wait."""

_JOB_ID = re.compile(r"([0-9]{1,18})(?:;.*)?")
_UNREACHABLE = re.compile(r"contact slurm controller|connect failure|timed out|munge", re.IGNORECASE)
_PREFIX = re.compile(r"^(?:sbatch: )?(?:error: )?(?:Batch job submission failed: )?")
_QUERY_SECONDS = 10.0
_UNDECIDED_SECONDS = 3.0
"""Seconds that Slurm may take to say why a job waits."""

_PAUSE_SECONDS = 0.2
_UNDECIDED = frozenset({"None", "(null)", ""})

_ORDINARY = frozenset(
    {"BeginTime", "Cleaning", "Dependency", "JobArrayTaskLimit", "Licenses", "Priority", "Reservation", "Resources"}
)
"""Reasons that pass by themselves, as other jobs end and time goes on."""


def submit(job: BatchJob, environ: Mapping[str, str] | None = None) -> str:
    """Submits a job.

    Returns:
        The job's number.

    Raises:
        UsageError: There is no sbatch here, or Slurm refuses the job.
        FormingError: Slurm does not answer.
    """
    try:
        done = subprocess.run(
            ["sbatch", "--parsable"],
            input=batch_script(job),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            env=None if environ is None else dict(environ),
        )
    except FileNotFoundError:
        raise UsageError(
            "--on slurm submits a job by Slurm's sbatch, which is not on this machine's PATH. Call tfdist on a node of "
            "the cluster that has it, or take the script there: --print shows it."
        ) from None
    except OSError as error:
        raise UsageError(f"Slurm's sbatch cannot be run: {error}.") from None
    except subprocess.TimeoutExpired:
        raise FormingError(
            f"Slurm's sbatch has not answered within {_SECONDS:g} s. Whether there is a job now, `squeue --me` says."
        ) from None
    found = _JOB_ID.fullmatch(done.stdout.strip().rpartition("\n")[2])
    if done.returncode == 0 and found is not None:
        return found[1]
    raise _refusal(done.stderr or done.stdout, job)


def _refusal(said: str, job: BatchJob) -> UsageError | FormingError:
    lines = [_PREFIX.sub("", line.strip()) for line in said.splitlines()]
    told = [line.rstrip(".") for line in lines if line and not line.startswith("Try ")]
    why = "; ".join(dict.fromkeys(told)) or "without a word"
    if _UNREACHABLE.search(why):
        return FormingError(
            f"Slurm cannot be reached: {why}. Nothing was submitted. `scontrol ping` says when it can be."
        )
    given = " ".join(f"--{name} {value}" for name, value in _asked(job).items() if value is not None)
    further = f" --sbatch {shlex.quote(shlex.join(job.options))}" if job.options else ""
    return UsageError(
        f"Slurm refuses the job: {why}. Received: {given}{further}. `sinfo` shows the partitions and their limits."
    )


def _asked(job: BatchJob) -> dict[str, object]:
    return {
        "nodes": job.nodes,
        "tasks-per-node": job.tasks_per_node,
        "gpus-per-node": job.gpus_per_node,
        "time": job.time,
        "partition": job.partition,
    }


def submitted_text(job: BatchJob, number: str) -> str:
    """Returns what the user is told of a job that was submitted."""
    each = "" if job.gpus_per_node is None else f", {format_count(job.gpus_per_node, 'GPU')} a node"
    workers = format_count(job.nodes * job.tasks_per_node, "worker")
    task = "TASK" if job.is_array else ""
    run_dir = _shown_run_dir(job, number, task)
    lines = [
        f"submitted job {number}: {workers} on {format_count(job.nodes, 'node')}{each}",
        f"  run directory  {run_dir}" + (" (TASK: each of the array)" if task else ""),
        f"  its log        {job.log_of(number, task)}",
        f"  watch it       squeue --job {number}; tfdist status {shlex.quote(run_dir)}",
        f"  cancel it      scancel {number}, which lets it save first",
    ]
    return "\n".join(lines)


def _shown_run_dir(job: BatchJob, number: str, task: str) -> str:
    if job.run_dir is not None:
        return f"{job.run_dir}-{task}" if task else job.run_dir
    return f"{DEFAULT_PARENT}/{job.name}-{number}" + (f"_{task}" if task else "")


def submission_notes(job: BatchJob, number: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """Lines for the user of a job that was submitted; none where nothing is to be said."""
    notes = []
    folder = os.path.dirname(os.path.join(job.cwd, job.log_of(number, "")))
    if "%" not in folder and not os.path.isdir(folder):
        notes.append(
            f"there is no directory {folder} here, for its log: where its nodes have none either, it fails without a "
            "word"
        )
    reason = _held_back_by(number, environ)
    if reason:
        notes.append(
            f"Slurm holds it back: {reason}. `sinfo` shows the partitions and their limits, `man squeue` what each "
            "reason means"
        )
    return [f"  note           {note}" for note in notes]


def _held_back_by(number: str, environ: Mapping[str, str] | None) -> str:
    """Returns why a job waits, unless that passes by itself; empty where it does, and where Slurm does not say."""
    deadline = time.monotonic() + _UNDECIDED_SECONDS
    while True:
        state, _, reason = _controller_says(number, environ).partition(" ")
        if state != "PENDING" or reason.partition(",")[0] in _ORDINARY:
            return ""
        if reason not in _UNDECIDED:
            return reason
        if time.monotonic() > deadline:
            return ""
        time.sleep(_PAUSE_SECONDS)


def _controller_says(number: str, environ: Mapping[str, str] | None) -> str:
    """The state of a job and why it waits, in one line; empty where Slurm does not say."""
    try:
        done = run(["squeue", "--noheader", "--format=%T %r", f"--jobs={number}"], _QUERY_SECONDS, environ=environ)
    except OSError:
        return ""
    return (done.out.splitlines() or [""])[0].strip() if done.code == 0 else ""


def step_command(
    *,
    arguments: Sequence[str],
    python: str,
    nodes: int,
    tasks_per_node: int,
    gpus_per_node: int | None,
    start_timeout: float = 120.0,
) -> tuple[str, ...]:
    """The command that trains in an allocation.

    Args:
        python: The Python that runs tfdist on the nodes.
        gpus_per_node: GPUs of each; None for those of the allocation.
        start_timeout: Seconds that the launchers wait for one another.
    """
    # The first Ctrl-C goes to the launchers, which stop after a step; otherwise srun keeps it for itself.
    # The environment goes along, with the secret, even where the allocation was made with --export=NONE.
    options = ["--disable-status", "--export=ALL", *layout_options(nodes, tasks_per_node)]
    options += ending_options(arguments, start_timeout)
    options += [] if gpus_per_node is None else [f"--gpus-per-node={gpus_per_node}"]
    return ("srun", *options, python, "-m", "tfdist", "train", *arguments)


def new_token() -> dict[str, str]:
    """A secret of this start as a variable, by which its launchers know one another."""
    return {shared_token.VARIABLE: secrets.token_hex(32)}


def with_cores(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a step that has the allocation's --cpus-per-task, which srun does not take over by itself."""
    cores = environ.get("SLURM_CPUS_PER_TASK")
    return {**({} if cores is None else {"SRUN_CPUS_PER_TASK": cores}), **environ}


def become_step(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Becomes the command, so that signals and the exit code are its own. Returns only where it cannot.

    Raises:
        UsageError: There is no srun here.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(command[0], list(command), dict(environ))
    except OSError as error:
        raise UsageError(
            f"In an allocation of Slurm, --on slurm calls srun, which cannot be run here: {error.strerror}. Expected "
            "it on the PATH."
        ) from None
