"""The bar of a run, on screens of several widths."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tfdist.launch.progress_bar import Screen, draw
from tfdist.launch.run_progress import RunProgress
from tfdist.rundir import State

PROGRESS = RunProgress(
    State.STEP,
    epoch=2,
    epochs=10,
    step=120,
    steps=480,
    metrics={"loss": "0.2311", "accuracy": "0.9342"},
    rate=8412.0,
    waited=0.07,
    epoch_left=12.0,
    run_left=245.0,
)


def drawn(progress: RunProgress, columns: int, encoding: str = "utf-8") -> list[str]:
    return [line.decode(encoding) for line in draw(progress, Screen(columns, encoding, colors=None))]


def test_a_wide_screen_shows_all_on_one_line() -> None:
    (line,) = drawn(PROGRESS, 140)
    head, tail = (
        "epoch  3/10  120/480  ",
        "  0:12 left, run 4:05  8,412 samples/s  loss 0.2311  accuracy 0.9342  input 7 %",
    )
    assert line.startswith(head) and line.endswith(tail)
    assert line.removeprefix(head).removesuffix(tail).rstrip() == "━" * 9 + "╸"


def test_a_screen_of_80_columns_shows_two_lines() -> None:
    first, second = drawn(PROGRESS, 80)
    assert first.startswith("epoch  3/10  120/480  ━") and first.endswith("  0:12 left, run 4:05  8,412 samples/s")
    assert second == "  loss 0.2311  accuracy 0.9342  input 7 %"


def test_what_does_not_fit_is_left_out() -> None:
    first, second = drawn(replace(PROGRESS, metrics={f"metric_{n}": "0.1234" for n in range(9)}), 50)
    assert first.startswith("epoch  3/10  120/480  ━") and "left" not in first
    assert second.startswith("  metric_0 0.1234  metric_1") and second.endswith("…")


@pytest.mark.parametrize("columns", [1, 20, 40, 79, 80, 81, 100, 119, 120, 121, 140, 300])
@pytest.mark.parametrize("state", [State.STEP, State.COMPILING, State.EVALUATING])
def test_no_line_is_as_wide_as_the_screen(columns: int, state: State) -> None:
    for progress in (
        PROGRESS,
        replace(PROGRESS, steps=None, epoch_left=None, run_left=None),
        replace(PROGRESS, step=0),
    ):
        lines = drawn(replace(progress, state=state, validated=10, validation_steps=20), columns)
        assert 1 <= len(lines) <= 2
        assert all(len(line) < max(21, columns) for line in lines), lines


def test_the_bar_grows_with_the_steps() -> None:
    shown = [drawn(replace(PROGRESS, step=step), 80)[0].count("━") for step in (0, 240, 480)]
    assert shown == [0, 9, 19]


def test_an_epoch_of_unknown_size_has_no_bar() -> None:
    first, _ = drawn(replace(PROGRESS, steps=None), 80)
    assert first == "epoch  3/10  120  0:12 left, run 4:05  8,412 samples/s"


def test_without_unicode_it_is_drawn_in_ascii() -> None:
    for line in drawn(replace(PROGRESS, metrics={"verlustgröße": "0.1"}), 80, encoding="ascii"):
        assert line.isascii()
