"""Names of the files of a checkpoint whose workers have each written a shard."""

from __future__ import annotations

import re

SHARD_TABLE = "weights.parts.json"
"""The file that says which bytes of the file of weights are in which file: `tfdist.sharding.file_shards.FileShards`."""

REST = "weights.rest"
"""All bytes of the file of weights that workers do not share: its structure and small values."""

_PART = re.compile(r"weights\.worker-(\d+)-of-\d+")


def shard_file_name(worker: int, workers: int) -> str:
    """The file with the shard of a worker."""
    return f"weights.worker-{worker}-of-{workers}"


def shown(name: str) -> str:
    """The name of a file for people, with the worker that wrote it where it is one's shard."""
    match = _PART.fullmatch(name)
    return name if match is None else f"{name}, the part of worker {match[1]},"
