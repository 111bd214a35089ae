"""Submission: a batch job goes to Slurm, and the user hears its number and what to do with it."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping

from tfdist.errors import FormingError, UsageError
from tfdist.multihost.slurm.batch_job import BatchJob
from tfdist.multihost.slurm.batch_script import batch_script
from tfdist.rundir.run_dir_creation import DEFAULT_PARENT
from tfdist.text import format_count

_SECONDS = 120.0
"""Seconds that sbatch may take; a busy controller lets it wait."""
_JOB_ID = re.compile(r"([0-9]{1,18})(?:;.*)?")
_UNREACHABLE = re.compile(r"contact slurm controller|connect failure|timed out|munge", re.IGNORECASE)
_PREFIX = re.compile(r"^(?:sbatch: )?(?:error: )?(?:Batch job submission failed: )?")


def submit(job: BatchJob, environ: Mapping[str, str] | None = None) -> str:
    """Submits a job.

    Args:
        job: The job.
        environ: Of sbatch; None for this process's.

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
