"""Rehearsed trainings: `tfdist train --fast-dev-run`, and the first `fit` of a script, which `tfdist plan` shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tfdist.cli.train_target import Target
from tfdist.errors import UsageError

if TYPE_CHECKING:
    from tfdist.launch.job_spec import JobSpec


_OF_RUNS_THAT_ARE_KEPT = (
    "run_dir",
    "overwrite",
    "copy_to",
    "resume",
    "checkpoint_every",
    "max_restarts",
    "min_workers",
    "saves_results",
)


def check_fast_dev_run(ctx: click.Context) -> None:
    """Raises `UsageError` where an option beside it says what is kept of a run, or how it goes on."""
    for option in ctx.command.params:
        name = option.name or ""
        if name in _OF_RUNS_THAT_ARE_KEPT and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            name = next(iter([*option.secondary_opts, *option.opts]))
            raise UsageError(
                f"--fast-dev-run keeps nothing of a run and never goes on with one. Expected it without {name}. "
                f"Received: --fast-dev-run {name}. Leave one of them out."
            )


def run_fast_dev(job: JobSpec) -> int:
    """Runs the job, says what was run, and returns the exit code."""
    # Imported here: `--help` does not need it.
    from tfdist.launch.rehearsed_job import fast_dev_run

    done = fast_dev_run(job)
    if not job.quiet or done.code:
        click.echo(f"tfdist: {done.said}", err=True)
    return done.code


def show_first_fit(
    target: Target,
    *,
    memory: bool,
    nproc: int | None,
    timeout: float,
    as_json: bool,
    workers: str | None,
    replicas: int | None,
    **options: Any,
) -> None:
    """Runs a script as far as its first `fit`, and prints the plan of that.

    Args:
        target: The script or module.
        memory: Whether to show what a device holds in each mode of `--shard`.
        nproc: Workers of this machine; None for as many as `tfdist train` would start.
        workers: None: a script is tried on this machine.
        replicas: None likewise.
        **options: What else `JobSpec` takes; None for what it has by default.

    Raises:
        UsageError: The script has no `fit`, or the options do not fit this machine.
        WorkerFailedError: It failed, or took too long.
    """
    # Imported here: `--help` does not need it.
    from tfdist.cluster.discover import discover
    from tfdist.launch.environment import count_gpus_here
    from tfdist.launch.gpus.worker_choice import with_chosen_workers
    from tfdist.launch.job_spec import JobSpec
    from tfdist.launch.rehearsed_job import planned_fit
    from tfdist.plan.fit.fit_plan import FitPlan
    from tfdist.plan.fit.fit_plan_table import render

    given = {name: value for name, value in options.items() if value is not None}
    spec = JobSpec(
        membership=discover(nproc=nproc, environ={}),
        target_kind=target.kind,
        target=target.target,
        args=target.args,
        name=target.name,
        **given,
    )
    job, chosen = with_chosen_workers(spec, count_gpus_here)
    if chosen:
        click.echo(f"tfdist: {chosen}", err=True)
    plan = FitPlan(target.target, planned_fit(job, timeout))
    click.echo(json.dumps(plan.to_json(), indent=2) if as_json else render(plan, with_modes=memory))
