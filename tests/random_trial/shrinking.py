"""The smallest draw that fails like another: one thing after the other is left out while it still does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

from tests.random_trial.draw import Draw, Head

_PLAIN_OPTIMIZER = "keras.optimizers.SGD(0.05)"


def shrunken(draw: Draw, fails: Callable[[Draw], bool], may_go_on: Callable[[], bool]) -> Draw:
    """The smallest draw that was found.

    Args:
        draw: It fails.
        fails: Whether a simpler one fails in the same way.
        may_go_on: Asked before each try.
    """
    smaller: Draw | None = draw
    while smaller is not None:
        draw = smaller
        smaller = next((simpler for simpler in simpler_than(draw) if may_go_on() and fails(simpler)), None)
    return draw


def simpler_than(draw: Draw) -> Iterator[Draw]:
    """Draws that lack one thing, those that lack most first."""
    for changes in _changes(draw):
        try:
            yield replace(draw, **changes)
        except ValueError:  # It does not fit together.
            continue


def _changes(draw: Draw) -> Iterator[dict[str, Any]]:
    if draw.is_of_workers:
        yield {"is_of_workers": False}
    yield from ({"heads": heads} for heads in _without_one(draw.heads) if heads)
    for start, end in sorted(combinations(range(len(draw.parts) + 1), 2), key=lambda cut: cut[0] - cut[1]):
        yield {"parts": draw.parts[:start] + draw.parts[end:]}
    yield from ({"callbacks": callbacks} for callbacks in _without_one(draw.callbacks))
    yield from ({"compiled": compiled} for compiled in _without_one(draw.compiled))
    if draw.feed not in ("repeated", "generator"):  # They end by an option alone.
        yield from ({"fitted": fitted} for fitted in _without_one(draw.fitted))
    if draw.feed not in ("arrays", "dataset"):
        ended = tuple(option for option in draw.fitted if option[0] != "steps_per_epoch")
        yield {"feed": "arrays", "fitted": ended}
        yield {"feed": "dataset", "fitted": ended}
    if draw.optimizer != _PLAIN_OPTIMIZER:
        yield {"optimizer": _PLAIN_OPTIMIZER}
    for number, head in enumerate(draw.heads):
        for simpler in _simpler_heads(head):
            yield {"heads": (*draw.heads[:number], simpler, *draw.heads[number + 1 :])}
    yield from _smaller(draw)


def _smaller(draw: Draw) -> Iterator[dict[str, Any]]:
    if draw.form == "own_step" and draw.step != "OwnStep":
        yield {"step": "OwnStep"}
    if draw.form != "functional":
        yield {"form": "functional"}
    if draw.precision != "float64":
        yield {"precision": "float64"}
    if draw.replicas > 2:
        yield {"replicas": 2}
    if draw.epochs > 1:
        yield {"epochs": 1}
    for batch, samples in ((4, 4), (4, 5), (draw.batch, draw.batch), (draw.batch, draw.batch + 1)):
        if samples < draw.samples:
            yield {"batch": batch, "samples": samples}


def _simpler_heads(head: Head) -> Iterator[Head]:
    yield from (replace(head, metrics=metrics) for metrics in _without_one(head.metrics))
    yield from (replace(head, weighted_metrics=metrics) for metrics in _without_one(head.weighted_metrics))
    if head.loss != head.plain:
        yield replace(head, loss=head.plain)
    if head.weight:
        yield replace(head, weight="")
    if head.loss_weight != 1.0:
        yield replace(head, loss_weight=1.0)


def _without_one(values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for number in range(len(values)):
        yield values[:number] + values[number + 1 :]
