from __future__ import annotations

import json.decoder
import re
from pathlib import Path

import pytest

from tfdist.config import resolve_callable
from tfdist.errors import ConfigError


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("json.dumps", json.dumps),
        ("json.decoder.JSONDecoder", json.decoder.JSONDecoder),
        ("json.decoder.JSONDecoder.decode", json.decoder.JSONDecoder.decode),  # of a class
    ],
)
def test_finds_functions_and_classes(path: str, expected: object) -> None:
    assert resolve_callable(path, "model.build") is expected


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package `mine` with modules that fail in several ways."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "__init__.py").write_text("build = len\nsize = 3\n")
    (folder / "later.py").write_text("def build(): pass\n")
    (folder / "needy.py").write_text("import absent_package\n")
    (folder / "broken.py").write_text("def build(:\n")
    (folder / "raising.py").write_text("raise RuntimeError('no licence')\n")
    (folder / "script.py").write_text("import argparse\nargparse.ArgumentParser().parse_args(['--unknown'])\n")
    (folder / "lazy.py").write_text("def __getattr__(name):\n    import absent_package\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("package")
def test_imports_modules_on_the_way() -> None:
    assert resolve_callable("mine.later.build", "model.build").__name__ == "build"


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "absent_package.build",
            "there is no module absent_package. Expected one that is installed or lies in the wor",
        ),
        ("mine.biuld", "mine has no biuld; did you mean mine.build? Received: mine.biuld"),
        ("mine.biuld.inner", "mine has no biuld; did you mean mine.build.inner?"),
        ("mine.zzz", "mine has no zzz. Received: mine.zzz"),
        ("mine.size", "expected a function or a class. Received: mine.size, which is a int"),
        ("mine.later", "expected a function or a class. Received: mine.later, which is a module"),
        ("mine.needy.build", "importing mine.needy raised ModuleNotFoundError: No module named 'absent_package'"),
        ("mine.broken.build", "importing mine.broken raised SyntaxError: "),
        ("mine.script.build", "importing mine.script raised SystemExit: 2. Received: mine.script.build"),
        ("mine.lazy.build", "looking for build raised ModuleNotFoundError: No module named 'absent_package'. Received"),
        ("mine.raising.build", "importing mine.raising raised RuntimeError: no licence"),
    ],
)
def test_errors(path: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"model.build: {message}")):
        resolve_callable(path, "model.build")
