"""The folder in which a checkpoint is made that all workers write."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from tfdist.checkpoint import checkpoint_files
from tfdist.checkpoint.background_writer import writer
from tfdist.checkpoint.checkpoint_files import MARKER
from tfdist.errors import RunDirError
from tfdist.rundir import atomic_files
from tfdist.runtime.collectives.chief_broadcast import text_from_chief
from tfdist.runtime.collectives.decisions import gather_objects

_TOKEN = ".token"
"""A file with a random text: a worker that reads the chief's there has the chief's folder, and no other of its name."""


@dataclass(frozen=True)
class Staging:
    """The place where the checkpoint is made, as all workers know it.

    Attributes:
        folder: On the chief's machine; None where the checkpoints have a URL.
        is_common: Whether all workers reach it.
        busy: The workers that are still writing their shard of the one before.
    """

    folder: Path | None
    is_common: bool
    busy: Sequence[int] = ()

    def discard(self) -> None:
        """Removes what was made; on the chief."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def clean(self) -> None:
        """Removes what is no part of the checkpoint; on the chief."""
        if self.folder is not None:
            for path in self.folder.glob(".*"):
                path.unlink()


def make_folder(checkpoints: Path, step: int) -> Path:
    """The folder of a new checkpoint, with a token; on the chief.

    Raises:
        RunDirError: The disk is full, or cannot be written.
    """
    folder = checkpoint_files.temporary_folder_of(checkpoints, step)
    try:
        folder.mkdir(parents=True)
        (folder / _TOKEN).write_text(secrets.token_hex(16))
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise atomic_files.write_error(checkpoints, error) from error
    return folder


def token_in(folder: Path) -> str:
    """The token of a folder; nothing where it cannot be read, as by a worker of another host."""
    return small_text(folder / _TOKEN)


def small_text(file: Path) -> str:
    """Returns what is in a small file; nothing where it cannot be read."""
    with contextlib.suppress(OSError, ValueError, RunDirError), checkpoint_files.opened(file) as content:
        return content.read(checkpoint_files.MOST_MARKER_BYTES).decode()
    return ""


def agreed_staging(folder: Path | None, strategy: tf.distribute.Strategy) -> Staging:
    """Returns where a checkpoint is made, and by whom; all workers call it together.

    Args:
        folder: On the chief, the one that it has made; None where there is none, and elsewhere.
        strategy: The strategy in force.
    """
    offered = {} if folder is None else {"folder": os.path.abspath(folder), "token": token_in(folder)}
    told = json.loads(text_from_chief(json.dumps(offered), strategy))
    place = Path(told["folder"]) if told else None
    reaches = place is not None and token_in(place) == told["token"]
    answers = gather_objects({"reaches": reaches, "busy": writer().is_busy}, strategy)
    busy = [worker for worker, answer in enumerate(answers) if answer["busy"]]
    return Staging(place, all(answer["reaches"] for answer in answers), busy)


def all_reach(folder: str, strategy: tf.distribute.Strategy) -> bool:
    """Returns whether all workers reach a checkpoint in a folder of the chief's; all of them call it together."""
    marker = Path(folder) / MARKER
    told = text_from_chief(small_text(marker), strategy)
    return all(gather_objects(bool(told) and small_text(marker) == told, strategy))
