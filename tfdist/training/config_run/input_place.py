"""The place that a config's samples come from once the first epoch is over: memory, a disk, the network."""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from pathlib import Path

from tfdist.config.data_sections import GeneratorSource, ImagesSource, NpzSource, SourceConfig
from tfdist.data.files.file_patterns import matching
from tfdist.data.files.file_systems import local_file_system
from tfdist.data.files.image_folder import ImageFiles
from tfdist.data.files.remote_files import is_remote
from tfdist.data.formats.npz_files import read_headers
from tfdist.errors import DataError

_MOST_STATS = 256
"""Files whose size is looked up; that of the others is taken for the same on average."""

_KEPT = 0.5
"""The share of the machine's memory up to which the system keeps files there, beside what programs need."""


class Place(enum.Enum):
    """The place that samples come from.

    MEMORY: arrays of the process. KEPT: files that the system keeps in memory after they were read once. DISK: files on
    a disk of this machine, more than memory holds. NETWORK: files on a file system that is mounted, and that other
    hosts may see. REMOTE: files with an address, such as `gs://`, which are read anew in every epoch.
    """

    MEMORY = "memory"
    KEPT = "kept"
    DISK = "disk"
    NETWORK = "network"
    REMOTE = "remote"


def place_of(section: SourceConfig, memory: int | None = None) -> Place:
    """Returns where the samples of a section come from; a disk where that cannot be found out.

    Args:
        section: `data.train`.
        memory: Bytes of memory; None for this machine's.
    """
    if isinstance(section, GeneratorSource):
        return Place.MEMORY
    try:
        if isinstance(section, NpzSource) and not _is_mapped(section):
            return Place.MEMORY
        files = _files_of(section)
        if not files:
            return Place.REMOTE
        if _bytes_of(files) <= _KEPT * (_machine_memory() if memory is None else memory):
            return Place.KEPT
        return Place.NETWORK if local_file_system(files[0]) is None else Place.DISK
    except (DataError, OSError, ValueError):
        return Place.DISK  # it was readable before; a run that is at its end need not fail for it


def _is_mapped(section: NpzSource) -> bool:
    (x,) = read_headers(section.path, section.arrays[:1])
    return x.mapped


def _files_of(section: SourceConfig) -> Sequence[Path]:
    """The files of this machine; none where one of them is elsewhere."""
    if isinstance(section, ImagesSource):
        return ImageFiles.find(section.path).paths
    patterns = [value for name in section.PATHS for value in _listed(getattr(section, name))]
    return () if any(map(is_remote, patterns)) else matching(patterns)


def _listed(value: str | Sequence[str] | None) -> Sequence[str]:
    return [value] if isinstance(value, str) else value or []


def _bytes_of(files: Sequence[Path]) -> float:
    some = files[:: max(1, len(files) // _MOST_STATS)]
    return len(files) * sum(path.stat().st_size for path in some) / len(some)


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
