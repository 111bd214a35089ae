"""Looks for the files of a config's data, so that a run without them is refused before anything is made for it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfdist.config import RunConfig, SourceConfig
from tfdist.config.data_sections import TfrecordSource
from tfdist.config.load import listed
from tfdist.config.yaml_document import Document
from tfdist.data.files.file_patterns import check_local, check_scheme, matching
from tfdist.data.files.remote_files import is_remote
from tfdist.errors import DataError, RunDirError
from tfdist.rundir.bounded_disk import BoundedDisk

_LOOK_SECONDS = 10.0
"""Seconds that the disk of the data may take. Beyond that the workers look, whose own limits hold for it."""


def check_files(config: RunConfig, document: Document) -> None:
    """Looks for the files of this machine that a config's data names. Nothing is read, and no TensorFlow is loaded.

    What a remote file system holds is left to the workers, and so is a disk that does not answer in time.

    Raises:
        DataError: Some are not there, or cannot be read; each with its line and key in the document of the config.
    """
    problems = missing_files({"data.train": config.data.train, "data.validation": config.data.validation})
    if problems:
        raise DataError(listed(document, [(key, f"{key}: {problem}") for key, problem in problems.items()]))


def missing_files(sources: Mapping[str, SourceConfig | None]) -> dict[str, str]:
    """Returns what is wrong with the files of a config's data; see `check_files`.

    Args:
        sources: The dotted keys of sections, and what they have.

    Returns:
        The dotted keys of files, and the texts.
    """
    found = {}
    for key, source in sources.items():
        for name in () if source is None else source.PATHS:
            value = getattr(source, name)
            patterns = [value] if isinstance(value, str) else list(value or ())
            try:
                for pattern in patterns:
                    (check_scheme if isinstance(source, TfrecordSource) else check_local)(pattern)
                _check(f"{key}.{name}", [pattern for pattern in patterns if not is_remote(pattern)])
            except DataError as error:
                found[f"{key}.{name}"] = str(error)
    return found


def _check(key: str, patterns: Sequence[str]) -> None:
    # A disk that does not answer in time is no reason to refuse the run.
    with contextlib.suppress(RunDirError):
        BoundedDisk(f"the files of {key}", _LOOK_SECONDS).call(lambda: _look(key, patterns))


def _look(key: str, patterns: Sequence[str]) -> None:
    # A `path` is one file or folder, whatever letters it has, and a `data_dir` a folder.
    is_one = key.endswith((".path", ".data_dir"))
    for path in [Path(pattern) for pattern in patterns] if is_one else matching(patterns) if patterns else []:
        try:
            # A pipe without a writer would wait for one.
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        except OSError as error:
            raise DataError(
                f"Cannot read {path}: {error.strerror or error}. Expected what this user may read. Paths in a config "
                "are relative to the config, those of --set to the working directory."
            ) from error
