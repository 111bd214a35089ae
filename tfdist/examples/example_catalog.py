"""The examples of this installation: one line about each, and copies in a folder, over nothing that is there."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from tfdist.errors import UsageError
from tfdist.examples.example_files import FOLDERS, example_files

IN_WHEEL = Path(__file__).parent / "files"
SOURCE_TREE = Path(__file__).parents[2]
_NAMED = 5
"""The number of files an error names."""


def examples_root() -> Path:
    """The directory that holds `configs/` and `examples/`: in the wheel's package, or the source tree.

    Raises:
        UsageError: The installation has none, as after a copy of the package's modules alone.
    """
    for root in (IN_WHEEL, SOURCE_TREE):
        if all((root / folder).is_dir() for folder in FOLDERS):
            return root
    raise UsageError(
        f"This installation of tfdist has no examples. Expected {' and '.join(FOLDERS)} in {IN_WHEEL} (a wheel) or in "
        f"{SOURCE_TREE} (a source tree). Install it again: pip install --force-reinstall --no-deps tfdist"
    )


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


@dataclass(frozen=True)
class Copied:
    """The result of a copy.

    Attributes:
        written: Files that are new, as paths below `folder`.
        present: Files that were there already, the same to the byte.
        folder: Where they are.
    """

    written: tuple[Path, ...]
    present: tuple[Path, ...]
    folder: Path


def copy_examples(folder: Path, root: Path | None = None) -> Copied:
    """Writes `configs/` and `examples/` into a folder, which is made if it is not there.

    Nothing is overwritten: a file that is there with other content is refused before anything is written.

    Args:
        folder: Where to.
        root: Holds `configs/` and `examples/`; those of this installation when not given.

    Raises:
        UsageError: A file of the same name and other content is there, the folder cannot be written, or the
            installation has no examples.
    """
    root = root or examples_root()
    files = example_files(root)
    try:
        present = tuple(file for file in files if (folder / file).is_file() and _same(root / file, folder / file))
        missing = [file for file in files if file not in present]
        _refuse_others(folder, [file for file in missing if (folder / file).exists() or (folder / file).is_symlink()])
        for file in missing:
            _write_new(folder / file, (root / file).read_bytes())
    except OSError as error:
        place = error.filename or folder
        raise UsageError(
            f"The examples cannot be written into {folder}: {error.strerror} ({place}). Expected a directory that can "
            "be written, or the name of a new one. Give another."
        ) from error
    return Copied(tuple(missing), present, folder)


def _same(one: Path, other: Path) -> bool:
    return one.read_bytes() == other.read_bytes()


def _refuse_others(folder: Path, others: list[Path]) -> None:
    if not others:
        return
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    raise UsageError(
        f"{folder} has {'a file' if len(others) == 1 else f'{len(others)} files'} of the same name and other content: "
        f"{', '.join(map(str, others[:_NAMED]))}{more}. Nothing was written. Give another directory, or move "
        f"{'it' if len(others) == 1 else 'them'} away."
    )


def _write_new(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Exclusively: what appears in the meantime is not overwritten either.
    with open(path, "xb") as file:
        try:
            file.write(content)
            file.flush()
        except OSError:
            # Half of it would be taken for a file of the user's the next time.
            path.unlink()
            raise
