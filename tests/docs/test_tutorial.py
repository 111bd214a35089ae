"""The commands of the tutorial that need one machine alone run, in its order, from an empty folder."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.helpers.pages import DOCS, pages
from tfdist.cli.main import main

BOUND = 300  # seconds a command
TUTORIAL = (DOCS / "tutorial.md").read_text()
_COMMAND = re.compile(r"^    ((?:tfdist|python|cp) [^#\n]+)", re.MULTILINE)


def commands(text: str) -> list[str]:
    """What is typed into a shell, one text a command, however many lines it has on the page."""
    return [command.strip() for command in _COMMAND.findall(text.replace("\\\n", " "))]


@pytest.mark.slow
@pytest.mark.bound(1800)
def test_the_tutorial_runs(tmp_path: Path) -> None:
    for script in (DOCS / "tutorial").glob("*.py"):
        (tmp_path / script.name).write_bytes(script.read_bytes())
    printed = {}
    for command in commands(TUTORIAL):
        if "--workers" in command:
            continue
        words = shlex.split(command)
        program = {"tfdist": [sys.executable, "-m", "tfdist"], "python": [sys.executable], "cp": ["cp"]}[words[0]]
        done = subprocess.run(
            [*program, *words[1:]], cwd=tmp_path, capture_output=True, text=True, timeout=BOUND, check=False
        )
        assert done.returncode == 0, command + done.stdout + done.stderr
        printed[command] = done.stdout
    for script, runs in (("train.py", 3), ("wide.py", 2)):
        shown = [text for command, text in printed.items() if command.endswith(script)]
        results = [float(loss) for text in shown for loss in re.findall(r"test loss (\d\.\d+)", text)]
        assert len(results) >= runs
        assert f"test loss {results[0]:.4f}, test accuracy" in TUTORIAL
        assert results == pytest.approx([results[0]] * len(results), abs=2e-4)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(DOCS)))
def test_commands_of_all_pages_have_verbs_and_options_that_exist(page: Path) -> None:
    for command in commands(page.read_text()):
        words = shlex.split(command)
        if words[0] == "tfdist" and "..." not in words and words[1:2] != ["--help"]:
            assert unknown(words[1:]) == [], command


def unknown(words: list[str]) -> list[str]:
    """The verbs and options of a command line, up to its script, that tfdist has not."""
    verb: click.Command = main
    while isinstance(verb, click.Group):
        name, *words = words
        found = verb.get_command(click.Context(verb), name)
        if found is None:
            return [name]
        verb = found
    known = {option for parameter in verb.params for option in parameter.opts} | {"--help"}
    own = next((place for place, word in enumerate(words) if word.endswith(".py")), len(words))
    return [word for word in words[:own] if word.startswith("--") and word.partition("=")[0] not in known]


def test_a_word_that_tfdist_has_not_is_found() -> None:
    assert unknown(["trian", "train.py"]) == ["trian"]
    assert unknown(["train", "--nprocs", "2", "train.py", "--epochs"]) == ["--nprocs"]
