"""What a folder holds, to see that nothing in it is lost."""

from __future__ import annotations

import os
from pathlib import Path


def contents_of(folder: Path) -> dict[str, bytes | str]:
    """The bytes of every file below a folder, and where its links lead, by name."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file():
            found[name] = path.read_bytes()
    return found
