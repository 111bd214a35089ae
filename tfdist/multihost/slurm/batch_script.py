"""The script of a batch job. A pure function: it is printed, or submitted."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from tfdist.multihost.slurm.batch_job import BatchJob
from tfdist.rundir.run_dir_creation import DEFAULT_PARENT

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
        arguments: All that follows `tfdist train`.
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
