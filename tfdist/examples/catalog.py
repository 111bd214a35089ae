"""One line about each example, from its own text."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from tfdist.examples.example_files import example_files
from tfdist.examples.installed import examples_root


@dataclass(frozen=True)
class Example:
    """An example.

    Attributes:
        path: The config, script or folder, relative to where the examples are copied; a folder ends in `/`.
        text: What it shows, in one line.
    """

    path: str
    text: str


def catalog(root: Path | None = None) -> list[Example]:
    """The examples: every config and script, and every folder by its README.md.

    Args:
        root: Holds `configs/` and `examples/`; those of this installation when not given.

    Raises:
        UsageError: The installation has none.
    """
    root = root or examples_root()
    found = []
    for path in example_files(root):
        if len(path.parts) == 2 and path.suffix in _TITLES:
            found.append(Example(str(path), _TITLES[path.suffix]((root / path).read_text("utf-8"))))
        elif path.name == "README.md" and len(path.parts) == 3:
            found.append(Example(f"{path.parent}/", _heading((root / path).read_text("utf-8"))))
    return found


def _docstring(source: str) -> str:
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def _heading(text: str) -> str:
    return text.partition("\n")[0].lstrip("# ")


_TITLES = {".py": _docstring, ".md": _heading, ".yaml": _heading}
