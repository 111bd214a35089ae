"""`tfdist train --fast-dev-run`: a few steps of a training, of which nothing is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

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
    from tfdist.launch.rehearsal.rehearsed_job import fast_dev_run

    done = fast_dev_run(job)
    if not job.quiet or done.code:
        click.echo(f"tfdist: {done.said}", err=True)
    return done.code
