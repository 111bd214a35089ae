from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import __main__ as main_module
from benchmarks import record_reading
from tests.helpers.process_states import ends_within
from tests.helpers.waiting import until

SECONDS = 60


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


@pytest.mark.parametrize("name", ["ddp", "first-step", "all-reduce", "sharding", "tensor", "context"])
def test_comparisons_have_options_of_their_own(name: str) -> None:
    command = [sys.executable, "-m", "benchmarks", name, "--workers", "x"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 2 and f"usage: python -m benchmarks {name}" in done.stderr
    assert "argument --workers: expected a whole number from 1. Received: 'x'" in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_one_that_is_stopped_leaves_nothing_running(number: int, code: int, tmp_path: Path) -> None:
    """The first contestant is ended before it has done anything."""
    core = str(min(os.sched_getaffinity(0)))
    command = [sys.executable, "-m", "benchmarks", "ddp", "mlp", "--contestants", "apart", "--cores", core]
    benchmark = subprocess.Popen([*command, "--workers", "1", "--out", str(tmp_path)], start_new_session=True)
    children = Path(f"/proc/{benchmark.pid}/task/{benchmark.pid}/children")
    try:
        contestants = until(lambda: children.read_text().split())
    finally:
        benchmark.send_signal(number)
    assert benchmark.wait(SECONDS) == code
    assert all(ends_within(int(pid), SECONDS) for pid in contestants)
    assert not list(tmp_path.iterdir())
