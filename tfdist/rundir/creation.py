"""Makes run directories: the chief's launcher creates the run's, the other launchers join it."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from tfdist.errors import RunDirError
from tfdist.rundir.atomic import TEMPORARY_GLOB, write_error, write_json
from tfdist.rundir.layout import RunDir

DEFAULT_PARENT = "runs"


def create_run_dir(path: str | os.PathLike[str] | None, *, name: str, overwrite: bool = False) -> RunDir:
    """Creates the directory of a new run.

    Args:
        path: Where, relative to the working directory; None makes `runs/NAME-DATE-TIME`, which is always a new one.
        name: The run's name; in a default path, what is no letter, digit, dot, dash or underscore becomes a dash.
        overwrite: Whether a directory that holds an earlier run may be used again. Then the files that tfdist wrote
            are removed, and only they.

    Raises:
        RunDirError: The directory holds something, or cannot be made or written.
    """
    run = _default_directory(name) if path is None else RunDir(Path(path))
    if path is not None:
        _claim(run, overwrite)
    _prepare(run, name, is_new=True)
    return run


def join_run_dir(path: str | os.PathLike[str], *, name: str) -> RunDir:
    """The run directory that the chief's launcher created, on a machine that may or may not share its file system.

    Raises:
        RunDirError: The directory cannot be made or written.
    """
    run = RunDir(Path(path))
    _prepare(run, name, is_new=False)
    return run


def _default_directory(name: str) -> RunDir:
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "run"
    stem = f"{slug}-{time.strftime('%Y%m%d-%H%M%S')}"
    parent = Path(DEFAULT_PARENT)
    with _writing(parent):
        parent.mkdir(exist_ok=True)
        for number in range(1, 1000):
            candidate = parent / (stem if number == 1 else f"{stem}-{number}")
            with contextlib.suppress(FileExistsError):
                candidate.mkdir()
                return RunDir(candidate)
    raise RunDirError(f"Too many runs named {stem} in {parent.absolute()}. Give this one a --run-dir of its own.")


def _claim(run: RunDir, overwrite: bool) -> None:
    """Makes sure that the directory exists and is the new run's own."""
    with _writing(run.path):
        run.path.mkdir(parents=True, exist_ok=True)
        entries = sorted(os.listdir(run.path))
        if not entries:
            return _begin(run)
    shown = ", ".join(entries[:5]) + (", ..." if len(entries) > 5 else "")
    if not run.run_file.is_file():
        raise RunDirError(
            f"The directory {run} is not empty and was not made by tfdist, so that it is never overwritten. Expected a "
            f"new or an empty directory. Received: --run-dir with {shown}. Choose another --run-dir."
        )
    if not overwrite:
        raise RunDirError(
            f"The run directory {run} holds an earlier run. Expected a new or an empty directory. Received: --run-dir "
            f"with {shown}. Choose another --run-dir, or replace the earlier run with --overwrite."
        )
    with _writing(run.path):
        _remove_earlier_run(run)


def _begin(run: RunDir) -> None:
    """Takes an empty directory. Of two jobs that found it empty at the same time, one succeeds."""
    try:
        run.state_dir.mkdir()
    except FileExistsError as error:
        raise RunDirError(
            f"Another job has just begun to write into the run directory {run}. Expected one for this run alone. "
            "Give every job its own --run-dir; workers of one job are started with --workers or --nproc."
        ) from error


def _remove_earlier_run(run: RunDir) -> None:
    """Removes what tfdist writes, by name. `run_file` stays: the directory is tfdist's at every moment."""
    files = [run.config_file, run.history_file, run.metrics_file, run.model_file, run.failure_file]
    files += run.path.glob(TEMPORARY_GLOB)
    files += run.logs_dir.glob("worker-*.log")
    files += run.state_dir.glob("worker-*.json")
    files += run.state_dir.glob(TEMPORARY_GLOB)
    files += run.events_dir.rglob("events.out.tfevents.*")
    for file in files:
        file.unlink(missing_ok=True)
    emptied = sorted((entry for entry in run.events_dir.rglob("*") if entry.is_dir()), reverse=True)
    for directory in [*emptied, run.events_dir]:
        with contextlib.suppress(OSError):  # not empty: it holds what somebody else put there
            directory.rmdir()


def _prepare(run: RunDir, name: str, *, is_new: bool) -> None:
    with _writing(run.path):
        run.state_dir.mkdir(parents=True, exist_ok=True)
        if is_new or not run.run_file.exists():
            try:
                write_json(run.run_file, {"name": name, "created": time.time()})
            except RunDirError:
                with contextlib.suppress(OSError):  # leaves the directory as empty as it was found
                    run.state_dir.rmdir()
                raise
        run.logs_dir.mkdir(exist_ok=True)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except (FileExistsError, NotADirectoryError) as error:
        raise RunDirError(
            f"The run directory {path.absolute()} is not a directory, or lies below something that is none. Expected a "
            f"new or an empty directory. Received: {error}. Choose another --run-dir."
        ) from error
    except OSError as error:
        raise write_error(path.absolute(), error) from error
