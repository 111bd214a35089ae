"""`tfdist checkpoints`: the checkpoints of a run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfdist.cli import common_options as shared
from tfdist.cli.default_arguments import run_argument
from tfdist.cli.standard_streams import tf_lines_hidden
from tfdist.cli.verb import Verb, VerbGroup
from tfdist.errors import DataError, RunDirError

if TYPE_CHECKING:
    from tfdist.rundir import RunDir

_STEP = click.option(
    "--step", type=click.IntRange(min=0), metavar="N", help="The checkpoint of step N; else the latest whole one."
)


_FIT = shared.count("--fit", "Of a script that calls fit several times, the N-th that keeps checkpoints.", default=1)


def _run(command: Callable[..., Any]) -> Callable[..., Any]:
    return run_argument()(_FIT(command))


def _show(document: Any) -> None:
    click.echo(json.dumps(document, indent=2))


@click.group(cls=VerbGroup)
def checkpoints() -> None:
    """Lists, inspects, verifies, prunes and exports the checkpoints of a run.

    RUN_DIR is what `tfdist train` wrote into, on the chief's machine, by default the newest in ./runs. Exit codes: 0; 2
    when RUN_DIR or an option cannot be used; 5 when a checkpoint is damaged.
    """


@checkpoints.command(cls=Verb)
@_run
@shared.as_json()
def ls(run_dir: str, fit: int, as_json: bool) -> None:
    """Lists steps, epochs, sizes, ages, metrics, and whether each is whole by its files' names and sizes."""
    from tfdist.checkpoint.inspection import checkpoint_entries
    from tfdist.checkpoint.inspection.checkpoint_entries import checkpoints_of
    from tfdist.checkpoint.inspection.locations import fits_of

    run, held = checkpoints_of(run_dir, fit)
    if as_json:
        _show(checkpoint_entries.to_json(str(run), held))
    else:
        click.echo(checkpoint_entries.render(held, time.time()))
        others = [number for number in fits_of(run) if number != fit]
        if others:
            click.echo(f"other fits have checkpoints too: --fit {', '.join(map(str, others))}")


@checkpoints.command(cls=Verb)
@_run
@_STEP
@click.option("--against", type=click.IntRange(min=0), metavar="M", help="What changed since the checkpoint of step M.")
@shared.as_json()
def inspect(run_dir: str, fit: int, step: int | None, against: int | None, as_json: bool) -> None:
    """Shows what a checkpoint holds, or what changed between two: per variable the relative change."""
    from tfdist.checkpoint.inspection import contents
    from tfdist.checkpoint.inspection.checkpoint_entries import check_readable, checkpoints_of, chosen

    _, held = checkpoints_of(run_dir, fit)
    entry = chosen(held, step)
    check_readable(entry)
    if against is None:
        document = contents.inspected(entry)
        render = contents.render
    else:
        before = chosen(held, against)
        check_readable(before)
        document = contents.compared(before, entry)
        render = contents.render_changes
    _show(document) if as_json else click.echo(render(document))


@checkpoints.command(cls=Verb)
@_run
@click.option("--step", type=click.IntRange(min=0), metavar="N", help="Those of step N alone.")
@shared.as_json()
def verify(run_dir: str, fit: int, step: int | None, as_json: bool) -> None:
    """Reads every byte and compares it with the checksums; exits with 5 and names each damaged file."""
    from tfdist.checkpoint.inspection.checkpoint_entries import checkpoints_of, chosen, damages_or_obstacle

    _, held = checkpoints_of(run_dir, fit)
    asked = held if step is None else [entry for entry in held if entry.stored.step == chosen(held, step).stored.step]
    found = {entry.name: damages_or_obstacle(entry) for entry in asked}
    if as_json:
        _show({"checkpoints": [{"name": name, "damages": damaged} for name, damaged in found.items()]})
    else:
        for name, damaged in found.items():
            click.echo(f"{name}: {'; '.join(damaged) or 'whole'}")
    broken = [name for name, damaged in found.items() if damaged]
    if broken:
        raise DataError(
            f"{len(broken)} of {len(found)} checkpoints are damaged: {', '.join(broken)}. A resumed run "
            "skips them and takes the latest whole one."
        )


@checkpoints.command(cls=Verb)
@_run
@click.option("--keep", type=click.IntRange(min=1), required=True, metavar="K", help="How many whole ones stay.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--live", is_flag=True, help="Even while the run is running.")
def prune(run_dir: str, fit: int, keep: int, dry_run: bool, live: bool) -> None:
    """Removes old checkpoints; never the latest that is whole, whose every byte is read to be sure.

    Those that the run's config keeps for good (checkpoint.best, keep_every_steps, keep_every_epochs) stay as well.
    """
    from tfdist.checkpoint.checkpoint_pruner import info_of
    from tfdist.checkpoint.inspection.checkpoint_entries import checkpoints_of, damages
    from tfdist.checkpoint.inspection.locations import retention_of
    from tfdist.checkpoint.inspection.removal import locked, obsolete, remove
    from tfdist.text import format_bytes

    run, _ = checkpoints_of(run_dir, fit)
    with locked(run, live=live or dry_run) as is_running:
        if is_running:
            click.echo(f"the run in {run} is still running", err=True)
        held = checkpoints_of(run_dir, fit)[1]
        kept = retention_of(run).kept_for_good([info_of(entry.stored) for entry in held])
        old = obsolete(held, keep, lambda entry: not damages(entry))
        going = [entry for entry in old if info_of(entry.stored).key not in kept]
        gone = [entry for entry in going if dry_run or remove(entry)]
        for entry in gone:
            click.echo(f"{'would remove' if dry_run else 'removed'} {entry.name}, {format_bytes(entry.size)}")
    click.echo(f"{len(gone)} of {len(held)} checkpoints, {format_bytes(sum(entry.size for entry in gone))}")
    if len(gone) < len(going):
        raise RunDirError(
            f"{len(going) - len(gone)} of {len(going)} checkpoints could not be removed. Expected a directory that "
            f"this user can write to. Received: {going[0].stored.path.parent}. Change its permissions, or let its "
            "owner prune."
        )


@checkpoints.command(cls=Verb)
@click.argument("run_dir", metavar="RUN_DIR", type=shared.LocalPath())
@_FIT
@click.argument("dest", metavar="DEST", type=shared.LocalPath())
@_STEP
def export(run_dir: str, fit: int, dest: str, step: int | None) -> None:
    """Writes a checkpoint as a file that Keras opens without tfdist: DEST.weights.h5, or DEST.keras.

    A .weights.h5 has weights and the optimizer's state; a .keras is the whole model of a run from a config, whose code
    is run to build it. DEST is never replaced.
    """
    from tfdist.checkpoint.inspection.checkpoint_entries import checkpoints_of, chosen
    from tfdist.checkpoint.inspection.export import export as write

    run, held = checkpoints_of(run_dir, fit)
    entry = chosen(held, step)
    write(run, entry, Path(dest), load_model=_load_model)
    click.echo(f"step {entry.stored.step}: {dest}")


def _load_model(run: RunDir, weights: Path) -> Any:
    with tf_lines_hidden():
        from tfdist.training.config_objects.model_builder import load_model

        return load_model(run, weights)
