from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks import __main__ as main_module
from benchmarks import record_reading


def last_option(command: list[str], option: str) -> int:
    """Where it stands for the last time: `tfdist train` has one of its own before its target's."""
    return len(command) - 1 - command[::-1].index(option)


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [(["mlp", "cnn"], 2), (["wide", "--peer", "peer {model} {steps}"], 1), (["data", "--peer", "p {files}"], 3)],
)
def test_the_command_line_chooses_the_commands(
    arguments: list[str],
    lines: int,
    monkeypatch: pytest.MonkeyPatch,
    command_line: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With commands that `fit` and `data` take."""
    compared: list[tuple[list[str], list[str]]] = []

    def compare(first: list[str], second: list[str], *, pairs: int) -> str:
        compared.append((first, second))
        return "a ratio"

    monkeypatch.setattr(main_module, "compare", compare)
    monkeypatch.setattr(record_reading, "RECORDS", 3)
    command_line(*arguments)
    main_module.main()
    assert capsys.readouterr().out.count("a ratio") == len(compared) == lines
    modules = [command[last_option(command, "-m") + 1] for command, _ in compared]
    assert modules == ["benchmarks.record_reading" if "data" in arguments else "benchmarks.fit"] * lines
