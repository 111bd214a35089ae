"""Looks for the files of a config's data, so that a run without them is refused before anything is made for it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from tfdist.config import RunConfig
from tfdist.data.files.file_patterns import matching
from tfdist.data.files.remote_files import is_remote
from tfdist.errors import DataError, RunDirError
from tfdist.rundir.bounded_disk import BoundedDisk

_LOOK_SECONDS = 10.0
"""How long the disk of the data may take. Beyond that the workers look, whose own limits hold for it."""


def check_files(config: RunConfig) -> None:
    """Looks for the files of this machine that a config's data names. Nothing is read, and no TensorFlow is loaded.

    What a remote file system holds is left to the workers, and so is a disk that does not answer in time.

    Raises:
        DataError: One is not there, or cannot be read; the text begins with its key in the config.
    """
    for key, section in (("data.train", config.data.train), ("data.validation", config.data.validation)):
        for name in () if section is None else section.PATHS:
            value = getattr(section, name)
            patterns = [value] if isinstance(value, str) else list(value)
            _check(f"{key}.{name}", [pattern for pattern in patterns if not is_remote(pattern)])


def _check(key: str, patterns: Sequence[str]) -> None:
    try:
        # A disk that does not answer in time is no reason to refuse the run.
        with contextlib.suppress(RunDirError):
            BoundedDisk(f"the files of {key}", _LOOK_SECONDS).call(lambda: _look(key, patterns))
    except DataError as error:
        raise DataError(f"{key}: {error}") from error


def _look(key: str, patterns: Sequence[str]) -> None:
    # A `path` is one file or folder, whatever letters it has.
    named = [Path(pattern) for pattern in patterns] if key.endswith(".path") else matching(patterns) if patterns else []
    for path in named:
        try:
            # A pipe without a writer would wait for one.
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        except OSError as error:
            raise DataError(
                f"Cannot read {path}: {error.strerror or error}. Expected what this user may read. Paths in a config "
                "are relative to the config, those of --set to the working directory."
            ) from error
