"""Runs of a verification: their target, the job and folder of each, the log of one that failed; exit codes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfdist.cluster.discover import discover
from tfdist.cluster.membership import Membership
from tfdist.errors import UsageError
from tfdist.launch.environment import TargetKind
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.logs.terminal import Show
from tfdist.launch.signals import LauncherStopped, Signals
from tfdist.launch.worker_options import SHARED_MODEL, WorkerOptions
from tfdist.rundir.regular_files import read_tail
from tfdist.rundir.temp_names import keep as keep_folder
from tfdist.rundir.temp_names import temporary_folder
from tfdist.tf_log_filter import is_tf_log_line

if TYPE_CHECKING:
    from tfdist.config import RunConfig
    from tfdist.config.yaml_document import Document


TAIL_BYTES = 1 << 20
DIFFERS = 6
"""Of a verification whose runs differ."""

STOPPED = (129, 130, 143)
"""Of a run whose launcher was ended by a signal."""
_OF_REPLICAS = ("batch_norm", "communication", "compression", *SHARED_MODEL)
"""Decide how the replicas of a run work together."""


@dataclass
class WorkFolder:
    """The folder of the run directories, and whether it stays."""

    path: Path
    kept: bool

    def keep(self) -> None:
        """Keeps the run directories, for their logs."""
        if not self.kept:
            with contextlib.suppress(OSError):  # on a full disk: what is reported matters more
                keep_folder(self.path)
        self.kept = True


@contextlib.contextmanager
def open_folder(keep: str | None, purpose: str = "verify") -> Iterator[WorkFolder]:
    """A temporary folder, removed at the end, or `keep`, which stays. Raises `UsageError` if that cannot be used."""
    if keep is None:
        with contextlib.ExitStack() as opened:
            yield WorkFolder(_made(purpose, opened), kept=False)
    else:
        _check_empty(keep)
        yield WorkFolder(Path(keep), kept=True)


def _made(purpose: str, opened: contextlib.ExitStack) -> Path:
    try:
        return opened.enter_context(temporary_folder(purpose))
    except OSError as error:
        raise UsageError(
            "No folder for the run directory of this command could be made. Expected room in the folder for temporary "
            f"files, and that this user may write there. Received: {error}. Set TMPDIR to another one."
        ) from error


def _check_empty(keep: str) -> None:
    try:
        Path(keep).mkdir(parents=True, exist_ok=True)
        entries = os.listdir(keep)
    except OSError as error:
        raise UsageError(f"--keep {keep} cannot be used: {error}. Expected a new or an empty directory.") from error
    if entries:
        raise UsageError(
            f"--keep expects a new or an empty directory for the run directories. Received: --keep {keep} with "
            f"{', '.join(sorted(entries)[:3])}."
        )


class Interrupted(Exception):
    """A signal ended a run and the verification."""

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


def raise_if_interrupted(signals: Signals) -> None:
    """Raises `Interrupted` when a signal has come."""
    try:
        signals.check()
    except LauncherStopped as stopped:
        raise Interrupted(stopped.exit_code) from None


def last_line(log: Path, tail_bytes: int = TAIL_BYTES) -> str:
    """The last line of a worker's log, without TensorFlow's own messages; empty where it has no log.

    Args:
        tail_bytes: How much of the end is searched: a long run's log does not fit into memory.
    """
    try:
        content, skipped = read_tail(log, tail_bytes)
    except OSError:
        return ""
    lines = content.splitlines()
    whole = lines[1:] if skipped and len(lines) > 1 else lines
    said = [line for line in whole if line.strip() and not is_tf_log_line(line)]
    return said[-1].decode(errors="replace").strip() if said else ""


@dataclass(frozen=True)
class TargetSpec(WorkerOptions):
    """The request of all kinds of verification, and the options of their runs, those that a config has as well.

    Attributes:
        target_kind: What `target` is.
        target: Path or dotted name of what to train.
        name: What the run is called.
        config: What is trained, read once for all runs; None for a script or a module.
        document: The file of `config`; None where it has none.
        seed: The seed of every run.
        start_timeout: Seconds in which the workers must find one another.
        show: Whose output the terminal shows.
        keep: Where the run directories stay; None to remove them.
    """

    target_kind: TargetKind
    target: str
    name: str
    config: RunConfig | None = None
    document: Document | None = None
    seed: int = 1
    start_timeout: float = 120.0
    show: Show = "none"
    keep: str | None = None

    @property
    def replica_options(self) -> dict[str, str | int | None]:
        """The options that decide how the replicas of a run work together, for reports."""
        return {name: getattr(self, name) for name in _OF_REPLICAS}

    def job(self, workers: int | Membership, run_dir: Path, **options: Any) -> JobSpec:
        """One run of the target, whatever cluster the environment describes.

        Args:
            workers: How many processes, of this machine alone; or who takes part.
            run_dir: Where all its files go, checkpoints too: those of the user's own run stay as they are.
            **options: Other fields of `JobSpec`; one that a spec has, too, comes before that of the spec. A worker
                alone offloads where they say so.
        """
        options = {
            **self.worker_options(),
            # A worker alone, with whatever replicas, holds all of everything, where it is asked for nothing else.
            **{name: getattr(WorkerOptions if workers == 1 else self, name) for name in SHARED_MODEL},
            "membership": workers if isinstance(workers, Membership) else discover(nproc=workers, environ={}),
            "target": self.target,
            "run_dir": str(run_dir),
            "seed": self.seed,
            "start_timeout": self.start_timeout,
            "show": self.show,
            "quiet": self.config is None,
            **options,
        }
        if self.config is None:
            return JobSpec(target_kind=self.target_kind, name=self.name, **options)
        sharing = {name: options[name] for name in SHARED_MODEL}
        own = replace(self.config, checkpoint=replace(self.config.checkpoint, directory=None), **sharing)
        return JobSpec.for_config(own, document=self.document, **options)
