"""When which kind of progress is shown.

The line that shows a run's progress where no bar can be drawn.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tfdist.errors import UsageError
from tfdist.launch.logs.terminal import Terminal
from tfdist.launch.progress_display import PLAIN_SECONDS, Progress, ProgressDisplay, Shown, choose, plain_line
from tfdist.launch.run_progress import RunProgress
from tfdist.rundir import State

METRICS = {"loss": "0.2311", "accuracy": "0.9342"}


@dataclass
class FakeTerminal:
    """Keeps what it was to show."""

    said: list[str] = field(default_factory=list)
    fields: list[dict[str, Any]] = field(default_factory=list)
    drawn: list[list[str]] = field(default_factory=list)

    def say(self, text: str, **fields: Any) -> bool:
        self.said.append(text)
        self.fields.append(fields)
        return True

    def draw(self, lines: Sequence[bytes]) -> None:
        self.drawn.append([line.decode() for line in lines])

    def columns(self) -> int:
        return 80


def told(step: int) -> dict[str, Any]:
    return RunProgress(State.STEP, 0, 2, step, 10).to_dict()


def display(shown: Shown, times: Sequence[float] = ()) -> tuple[FakeTerminal, ProgressDisplay]:
    terminal, clock = FakeTerminal(), iter(times)
    return terminal, ProgressDisplay(cast(Terminal, terminal), shown, clock=lambda: next(clock))


@pytest.mark.parametrize(
    ("wanted", "is_screen", "is_dumb", "shown"),
    [
        ("auto", True, False, "bar"),
        ("auto", True, True, "plain"),
        ("auto", False, False, "plain"),
        ("bar", False, True, "bar"),
        ("plain", True, False, "plain"),
        ("none", True, False, "none"),
    ],
)
def test_choice(wanted: Progress, is_screen: bool, is_dumb: bool, shown: str) -> None:
    assert choose(wanted, is_screen=is_screen, is_dumb=is_dumb) == shown


def test_without_rich_there_is_no_bar() -> None:
    assert choose("auto", is_screen=True, is_dumb=False, has_rich=False) == "plain"
    with pytest.raises(UsageError, match="pip install rich"):
        choose("bar", is_screen=True, is_dumb=False, has_rich=False)


def test_a_bar_that_cannot_be_drawn_becomes_lines() -> None:
    terminal = FakeTerminal()
    shown = ProgressDisplay(cast(Terminal, terminal), "bar", encoding="klingon", clock=iter([0.0, 10.0]).__next__)
    for step in range(3):
        shown.update(told(step))
    assert terminal.drawn == [[]]
    assert terminal.said[0].startswith("the bar of the progress cannot be drawn (LookupError(")
    assert terminal.said[1:] == ["epoch 1/2  step  2/10"]


def test_a_plain_line_comes_now_and_then() -> None:
    terminal, shown = display("plain", [0.0, PLAIN_SECONDS - 1, PLAIN_SECONDS, PLAIN_SECONDS + 1, 2 * PLAIN_SECONDS])
    for step in range(5):
        shown.update(told(step))
    assert terminal.said == ["epoch 1/2  step  2/10", "epoch 1/2  step  4/10"]
    assert [fields["step"] for fields in terminal.fields] == [2, 4]
    assert not terminal.drawn


def test_after_a_restart_the_time_begins_anew() -> None:
    terminal, shown = display("plain", [0.0, PLAIN_SECONDS, PLAIN_SECONDS + 1])
    shown.update(told(1))
    shown.clear()
    shown.update(told(0))
    shown.update(told(1))
    assert not terminal.said


def test_a_bar_is_drawn_each_time_and_removed_in_the_end() -> None:
    terminal, shown = display("bar")
    shown.update(told(1))
    shown.update(told(2))
    shown.update(None)
    assert [len(lines) for lines in terminal.drawn] == [1, 1, 0]
    assert not terminal.said


@pytest.mark.parametrize("shown", ["bar", "plain", "none"])
def test_what_is_no_progress_shows_nothing(shown: Shown) -> None:
    terminal, nothing = display(shown)
    nothing.update({"epoch": os.sep})
    assert not terminal.said and not terminal.drawn


def test_nothing_shows_nothing() -> None:
    terminal, nothing = display("none")
    nothing.update(told(1))
    nothing.update(None)
    assert not terminal.said and not terminal.drawn


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {"steps": 469, "metrics": METRICS, "rate": 8412.4, "epoch_left": 12.0, "run_left": 245.0, "waited": 0.07},
            "epoch  3/10  step 120/469  loss 0.2311  accuracy 0.9342  8,412 samples/s  0:12 left, run 4:05  input 7 %",
        ),
        # A wait that is not worth a word.
        (
            {"steps": 469, "metrics": METRICS, "rate": 8.44, "waited": 0.05},
            "epoch  3/10  step 120/469  loss 0.2311  accuracy 0.9342  8.4 samples/s",
        ),
        ({"epoch": 9, "steps": 120, "epoch_left": 3.0, "run_left": 3.0}, "epoch 10/10  step 120/120  0:03 left"),
        ({"state": State.COMPILING, "step": 0, "steps": 469}, "epoch  3/10  step   0/469  compiling"),
        (
            {"state": State.EVALUATING, "steps": 120, "validated": 3, "validation_steps": 23},
            "epoch  3/10  step 120/120  validating 3/23",
        ),
        ({"state": State.EVALUATING, "validated": 3}, "epoch  3/10  step 120  validating 3"),
        ({"state": State.SAVING}, "epoch  3/10  step 120  saving"),
        ({"state": State.CALLBACK}, "epoch  3/10  step 120  in callbacks"),
        ({"gpu_memory": 13_207_024_435}, "epoch  3/10  step 120  GPU 12.3 GiB"),
        ({"metrics": {"a\x1b[2Jb": "1"}}, "epoch  3/10  step 120  a?[2Jb 1"),
    ],
)
def test_plain_line(fields: dict[str, Any], line: str) -> None:
    known = {"state": State.STEP, "epoch": 2, "epochs": 10, "step": 120}
    assert plain_line(RunProgress(**{**known, **fields})) == line
