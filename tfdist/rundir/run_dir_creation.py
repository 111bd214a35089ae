"""Creates run directories: the chief's launcher creates the run's, and the other launchers join it."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from tfdist.errors import RunDirError
from tfdist.rundir.atomic_files import write_error, write_json
from tfdist.rundir.layout import RunDir
from tfdist.rundir.temp_names import TEMPORARY_GLOB, remove_all

DEFAULT_PARENT = "runs"

Resume = Literal["auto", "must", "never"]

_LOG = re.compile(r"worker-[0-9]+\.([0-9]{1,9})\.log")
_CHECKPOINT_FILES = (
    "checkpoint.json",
    "model.weights.h5",
    "weights.parts.json",
    "weights.rest",
    "weights.worker-*-of-*",
    "replicas.npz",
    "summary.json",
    ".token",
    ".receipt-*.json",
    TEMPORARY_GLOB,
)
"""Of every checkpoint. The marker is removed first: without it, the other files are not a checkpoint."""


def create_run_dir(
    path: str | os.PathLike[str] | None, *, name: str, overwrite: bool = False, resume: Resume = "never"
) -> RunDir:
    """Creates the directory of a new run, or takes that of a run that is resumed.

    Args:
        path: Where, relative to the working directory; None makes `runs/NAME-DATE-TIME`, which is always new.
        name: The run's name; in a default path, characters other than letters, digits, dots, dashes and underscores
            become dashes.
        overwrite: Whether a directory with an earlier run may be used again. Then the files that tfdist wrote are
            removed, and no others.
        resume: Whether an earlier run in the directory is resumed: if there is one (`auto`), or there must be one
            (`must`), or never.

    Raises:
        RunDirError: The directory is not empty, cannot be made or written, or has no run to resume.
    """
    _check_options(path, overwrite, resume)
    run = _default_directory(name) if path is None else RunDir(Path(path))
    goes_on = path is not None and _claim(run, overwrite, resume)
    _prepare(run, name, is_new=not goes_on)
    return run


def join_run_dir(path: str | os.PathLike[str], *, name: str) -> RunDir:
    """The run directory that the chief's launcher created, on a machine that may or may not share its file system.

    Raises:
        RunDirError: The directory cannot be made or written.
    """
    run = RunDir(Path(path))
    _prepare(run, name, is_new=False)
    return run


def restore_run_dir(run: RunDir, *, name: str) -> bool:
    """Makes the directory of a running run again where somebody has removed or renamed it; returns whether it was gone.

    Raises:
        RunDirError: It cannot be made.
    """
    if run.run_file.exists():
        return False
    _prepare(run, name, is_new=False)
    return True


def dated_name(name: str) -> str:
    """Returns what the directory of a new run is called that starts now."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "run"
    return f"{slug}-{time.strftime('%Y%m%d-%H%M%S')}"


def _default_directory(name: str) -> RunDir:
    stem = dated_name(name)
    parent = Path(DEFAULT_PARENT)
    with _writing(parent):
        parent.mkdir(exist_ok=True)
        for number in range(1, 1000):
            candidate = parent / (stem if number == 1 else f"{stem}-{number}")
            with contextlib.suppress(FileExistsError):
                candidate.mkdir()
                return RunDir(candidate)
    raise RunDirError(f"Too many runs named {stem} in {parent.absolute()}. Give this one a --run-dir of its own.")


def next_attempt(run: RunDir) -> int:
    """The number of the next start of the run's workers, by the logs of earlier ones on this machine."""
    numbers = [int(match[1]) for log in run.logs_dir.glob("worker-*.log") if (match := _LOG.fullmatch(log.name))]
    return max(numbers, default=-1) + 1


def _check_options(path: str | os.PathLike[str] | None, overwrite: bool, resume: Resume) -> None:
    if overwrite and resume != "never":
        raise RunDirError(
            f"--overwrite removes the run that --resume continues. Expected one of them. Received: --overwrite "
            f"--resume {resume}. Leave one out."
        )
    if path is None and resume == "must":
        raise RunDirError(
            "--resume must continues a run. Expected the directory of one. Received: no --run-dir. Add --run-dir."
        )


def _claim(run: RunDir, overwrite: bool, resume: Resume) -> bool:
    """Makes sure that the directory exists and may be used; returns whether it has a run that is resumed."""
    with _writing(run.path):
        if resume == "must" and not run.run_file.is_file():
            raise RunDirError(
                f"There is no run to resume in {run}. Expected the directory of an earlier run. Received: --resume "
                "must. Give its --run-dir, or begin a new one with --resume auto."
            )
        run.path.mkdir(parents=True, exist_ok=True)
        entries = sorted(os.listdir(run.path))
        if not entries:
            _begin(run)
            return False
    shown = ", ".join(entries[:5]) + (", ..." if len(entries) > 5 else "")
    if not run.run_file.is_file():
        raise RunDirError(
            f"The directory {run} is not empty and was not made by tfdist, so it is never overwritten. Expected a "
            f"new or an empty directory. Received: --run-dir with {shown}. Choose another --run-dir."
        )
    _refuse_links(run)
    if resume != "never":
        with _writing(run.path):
            _remove_states(run)
        return True
    if not overwrite:
        raise RunDirError(
            f"The run directory {run} has an earlier run. Expected a new or an empty directory. Received: --run-dir "
            f"with {shown}. Choose another --run-dir, resume the earlier run (--resume auto), or replace it with "
            "--overwrite."
        )
    with _writing(run.path):
        _remove_earlier_run(run)
    return False


def _begin(run: RunDir) -> None:
    """Takes an empty directory. Of two jobs that found it empty at the same time, one succeeds."""
    try:
        run.state_dir.mkdir()
    except FileExistsError as error:
        raise RunDirError(
            f"Another job has just begun to write into the run directory {run}. Expected one for this run alone. "
            "Give every job its own --run-dir; workers of one job are started with --workers or --nproc."
        ) from error


def _remove_states(run: RunDir) -> None:
    """Removes the states and failures of an earlier start."""
    files = [run.failure_file, *run.state_dir.glob("worker-*.json")]
    files += [run.job_file, *run.state_dir.glob("failure.*.json")]
    for file in files:
        file.unlink(missing_ok=True)
    remove_all([run.path, run.state_dir])


def _remove_earlier_run(run: RunDir) -> None:
    """Removes the files that tfdist writes, by name. `run_file` stays, so that the directory is always tfdist's."""
    _remove_states(run)
    files = [run.config_file, run.history_file, run.metrics_file, run.ledger_file, run.model_file, run.done_file]
    files += [run.resumes_file, run.copy_file, run.weights_file]
    files += run.logs_dir.glob("worker-*.log")
    files += run.events_dir.rglob("events.out.tfevents.*")
    fits = [run.checkpoints_dir, *run.checkpoints_dir.glob("fit-*")]
    checkpoints = [entry for fit in fits for pattern in ("step-*", ".step-*.tmp") for entry in fit.glob(pattern)]
    files += [file for folder in checkpoints for name in _CHECKPOINT_FILES for file in folder.glob(name)]
    for file in files:
        file.unlink(missing_ok=True)
    emptied = sorted((entry for entry in run.events_dir.rglob("*") if entry.is_dir()), reverse=True)
    for directory in [*emptied, run.events_dir, *checkpoints, *reversed(fits)]:
        with contextlib.suppress(OSError):  # not empty: it has files of somebody else's
            directory.rmdir()


def _prepare(run: RunDir, name: str, *, is_new: bool) -> None:
    _refuse_links(run)
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


def _refuse_links(run: RunDir) -> None:
    """Refuses links, by which who writes into the directory changes files elsewhere. Raises `RunDirError` for one."""
    events = [entry for entry in run.events_dir.rglob("*") if not run.events_dir.is_symlink()]
    checkpoints = [entry for name in ("fit-*", "step-*", "fit-*/step-*") for entry in run.checkpoints_dir.glob(name)]
    written = [run.state_dir, run.logs_dir, run.events_dir, run.checkpoints_dir, run.ledger_file]
    for path in [*written, *run.logs_dir.glob("worker-*.log"), *events, *checkpoints]:
        if path.is_symlink():
            raise RunDirError(
                f"{path} is a symbolic link. Expected that all that tfdist writes in a run directory lies in it. "
                f"Received: a link to {os.readlink(path)}. Remove it; to keep a run elsewhere, make --run-dir itself a "
                "link, or set checkpoint.directory."
            )


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except (FileExistsError, NotADirectoryError) as error:
        raise RunDirError(
            f"The run directory {path.absolute()} is not a directory, or is below a file. Expected a "
            f"new or an empty directory. Received: {error}. Choose another --run-dir."
        ) from error
    except OSError as error:
        raise write_error(path.absolute(), error) from error
