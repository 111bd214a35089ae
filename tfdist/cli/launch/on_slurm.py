"""`tfdist launch --on slurm`: from the options to a job, or to a step of the allocation that there is."""

from __future__ import annotations

import os
import shlex
import sys

import click

from tfdist.cli.launch.engines import EngineCall
from tfdist.cli.train_target import check_target
from tfdist.cluster.kubernetes import start_seconds
from tfdist.cluster.slurm import Allocation, slurm_allocation
from tfdist.errors import UsageError
from tfdist.launch.environment import read_token, variables_added
from tfdist.multihost.slurm.batch_job import BatchJob, batch_script, job_name
from tfdist.multihost.slurm.submission import (
    become_step,
    new_token,
    step_command,
    submission_notes,
    submit,
    submitted_text,
    with_cores,
)

_OF_THE_JOB = ("--run-dir=", "--resume=")
"""Options of train that the script of a job has in its own words."""
_OF_A_NEW_JOB = ("time", "partition", "sbatch")


def launch_on_slurm(call: EngineCall) -> int:
    """Submits a job that trains, or trains in the allocation that there is; returns the exit code.

    Raises:
        TfdistError: Something is in the way; nothing was submitted.
    """
    if call.options["print_only"]:
        click.echo(batch_script(_job(call)), nl=False)
        return 0
    check_target(call.target)
    allocation = slurm_allocation()
    if allocation is not None:
        return _in_allocation(call, allocation)
    job = _job(call)
    number = submit(job)
    click.echo("\n".join([submitted_text(job, number), *submission_notes(job, number)]))
    return 0


def _job(call: EngineCall) -> BatchJob:
    options, train = call.options, call.train
    if train["resume"] == "never" and "resume" in call.given:
        raise UsageError(
            "A job of Slurm's that is requeued goes on where it was. Expected --resume auto or must, or no --resume at "
            "all. Received: --resume never. For a new run, give another --run-dir."
        )
    try:
        further = tuple(shlex.split(" ".join(options["sbatch"])))
    except ValueError as error:
        received = " ".join(options["sbatch"])
        raise UsageError(f"--sbatch has a quote that does not end ({error}). Received: {received}") from None
    kept = tuple(argument for argument in call.train_arguments if not argument.startswith(_OF_THE_JOB))
    return BatchJob(
        name=job_name(call.target.name),
        arguments=(*kept, *call.target.arguments),
        cwd=os.getcwd(),
        python=sys.executable,
        nodes=options["nodes"] or 1,
        tasks_per_node=options["tasks_per_node"],
        gpus_per_node=options["gpus_per_node"],
        time=options["time"],
        partition=options["partition"],
        options=further,
        run_dir=train["run_dir"],
        resume=train["resume"] if "resume" in call.given else "auto",
        grace=train["grace"],
        start_timeout=train["start_timeout"] or start_seconds(),
    )


def _in_allocation(call: EngineCall, allocation: Allocation) -> int:
    options = call.options
    stray = next((name for name in _OF_A_NEW_JOB if name in call.given), None)
    if stray is not None:
        raise UsageError(
            f"This shell is in the allocation of the Slurm job {allocation.job}, where the training runs at once. "
            f"Expected no option of a new job. Received: --{stray}. Leave it out, or launch outside of the allocation."
        )
    nodes = options["nodes"] or allocation.nodes
    if nodes > allocation.nodes:
        raise UsageError(
            f"The allocation of the Slurm job {allocation.job} has {allocation.nodes} node(s). Expected at most as "
            f"many. Received: --nodes {nodes}"
        )
    command = step_command(
        arguments=call.arguments,
        python=sys.executable,
        nodes=nodes,
        tasks_per_node=options["tasks_per_node"],
        gpus_per_node=options["gpus_per_node"],
        start_timeout=call.train["start_timeout"] or start_seconds(),
    )
    if not call.train["quiet"]:
        click.echo(f"in the allocation of job {allocation.job}: {shlex.join(command)}", err=True)
    return become_step(command, with_cores(variables_added({} if read_token() else new_token())))
