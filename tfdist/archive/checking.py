"""Whether every byte of a checkpoint is as it was written."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tfdist.archive.reading import Held, Told, marked_faults, wrong_size


def damages(entry: Held) -> list[str]:
    """Every file that is not as it was written, and how, for people. Reads all of them."""
    if not entry.stored.is_marked:
        return [entry.fault or "it was never finished"]
    return marked_faults(entry.stored.path, _other_bytes)


def _other_bytes(file: Path, told: Told) -> str | None:
    wrong = wrong_size(file, told)
    if wrong is not None:
        return wrong
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    return None if digest == told.digest else f"the checksum of {file.name} is not the one that was written down"
