from __future__ import annotations

import json
from typing import Any

import pytest

from tfdist.plan.memory.layout_plan import LayoutPlan, PlannedWeight, plan_layouts
from tfdist.plan.memory.layout_table import render_layouts
from tfdist.plan.memory.step_sizes import TensorSize, WeightSizes


def weight(path: str, shape: tuple[int, ...], slices: tuple[int, ...] = (), **more: Any) -> WeightSizes:
    """Under Adam, in float32."""
    value = TensorSize(shape, 4)
    return WeightSizes(path, value, value.bytes, (value, value), slices=slices, **more)


def only(planned: LayoutPlan) -> PlannedWeight:
    (found,) = planned.weights
    return found


def test_a_slice_is_that_of_the_fullest_worker() -> None:
    found = only(plan_layouts([weight("a/kernel", (10, 7), (1, 2), computed="gathered")], 2, 2))
    assert (found.parameters, found.gradients, found.optimizer) == (160, 160, 320)
    both = only(plan_layouts([weight("a/kernel", (10, 7), (2, 2), computed="gathered")], 4, 2))
    assert both.parameters == 5 * 4 * 4


@pytest.mark.parametrize(
    ("mode", "cut", "whole"),
    [
        ("none", (200, 200, 400), (400, 400, 800)),
        ("zero1", (200, 100, 200), (400, 400, 200)),  # of two workers with the same slice each updates half of it
        ("zero2", (200, 100, 200), (400, 100, 200)),
    ],
)
def test_beside_modes_of_shard(mode: Any, cut: tuple[int, ...], whole: tuple[int, ...]) -> None:
    weights = [weight("a/kernel", (10, 10), (1, 2), computed="slices"), weight("b/kernel", (10, 10))]
    planned = plan_layouts(weights, 4, 2, mode=mode)
    held = [(each.parameters, each.gradients, each.optimizer) for each in planned.weights]
    assert held == [cut, whole]
    assert (f", with --shard {mode}" in render_layouts(planned)) == (mode != "none")
    vector = only(plan_layouts([weight("a/bias", (10,), (2,))], 4, 2, mode=mode))
    assert vector.optimizer == 2 * 5 * 4, "there is no further axis"


@pytest.mark.parametrize(
    ("slices", "computed", "workers", "sent"),
    [
        ((), "whole", 1, 0),
        ((), "whole", 2, 400),  # its gradient is summed: twice half of it
        ((), "whole", 4, 600),
        ((1, 2), "gathered", 2, 3 * 200),  # gathered twice, and the gradient summed into slices
        ((1, 2), "gathered", 4, 3 * 200 + 200),  # and that sum between two groups
        ((1, 2), "slices", 2, 0),
        ((1, 2), "slices", 4, 200),
    ],
)
def test_what_a_worker_sends(slices: tuple[int, ...], computed: Any, workers: int, sent: int) -> None:
    assert only(plan_layouts([weight("a/kernel", (10, 10), slices, computed=computed)], workers, 2)).sent == sent


def test_the_largest_layer_is_whole_at_a_time() -> None:
    weights = [
        weight("a/kernel", (10, 10), (1, 2), computed="gathered"),
        weight("a/bias", (10,), (2,), computed="gathered"),
        weight("b/kernel", (10, 5), (1, 2), computed="gathered"),
        weight("c/kernel", (100, 10), (1, 2), computed="slices"),
    ]
    planned = plan_layouts(weights, 2, 2)
    assert planned.state.whole_layer == 2 * 440
    assert planned.state.parameters == 200 + 20 + 120 + 2000


def test_the_table() -> None:
    weights = [
        weight("wide/kernel", (10, 8), (1, 2), layout="by columns", computed="gathered"),
        weight("wide/bias", (8,), (2,), layout="with its kernel", computed="gathered"),
        weight("norm/gamma", (8,)),
    ]
    planned = plan_layouts(weights, 4, 2, ["The pattern 'x' matches nothing."])
    shown = render_layouts(planned).splitlines()
    assert shown[0] == "layouts of weights over 2 workers, in each of 2 groups"
    assert shown[2].split()[:2] == ["wide", "kernel"] and "axis 1 in 2: by columns" in shown[2]
    assert shown[3].split()[0] == "bias"
    assert "whole" in shown[4] and shown[-1] == "  - warning: The pattern 'x' matches nothing."
    assert LayoutPlan.from_json(json.loads(json.dumps(planned.to_json()))) == planned
