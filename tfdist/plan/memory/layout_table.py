"""The layouts of a model's weights as text for people."""

from __future__ import annotations

from collections.abc import Iterator

from tfdist.plan.memory.layout_plan import LayoutPlan, PlannedWeight
from tfdist.text import format_bytes, format_count, table, wrap

_GATHERED = "A weight that is gathered is whole while its layer computes: forward, and again backward."
_ROWS = (
    "A layer that computes with slices sends rows of what it computes: the last column has those of its products. What "
    "other operations exchange that need full rows is not counted."
)
_NO_ROWS = "A layer that computes with slices sends rows of what it computes, which are not counted here."


def render_layouts(plan: LayoutPlan) -> str:
    """The map, layer by layer, and what is of no use in it."""
    return "\n".join(_lines(plan))


def _lines(plan: LayoutPlan) -> Iterator[str]:
    groups = plan.workers // plan.shares
    more = f", in each of {groups} groups" if groups > 1 else ""
    beside = "" if plan.mode == "none" else f", with --shard {plan.mode}"
    yield f"layouts of weights over {format_count(plan.shares, 'worker')}{more}{beside}"
    has_rows = plan.rows > 0
    rows = [("layer", "weight", "shape", "cut", "computed", "a worker holds", "sends", *["rows"] * has_rows)]
    before = None
    for weight in plan.weights:
        layer, _, name = weight.path.rpartition("/")
        shown = "" if layer == before else layer
        sizes = (_size(weight.held), _size(weight.sent), *[_size(weight.rows) if weight.rows else ""] * has_rows)
        rows.append((shown, name, _shape(weight), _cut(weight), weight.computed, *sizes))
        before = layer
    state = plan.state
    held = _size(state.between_steps + state.gradients)
    rows.append(("all", "", "", "", "", held, _size(plan.sent), *[_size(plan.rows)] * has_rows))
    yield from table(rows, "lllllrr" + "r" * has_rows, indent="  ", gap=2)
    yield wrap(
        f"The fullest worker holds {_size(state.parameters)} of weights, {_size(state.gradients)} of gradients and "
        f"{_size(state.optimizer)} of the optimizer's state. What it sends for them in a step is an estimate.",
        "  ",
    )
    kinds = {weight.computed for weight in plan.weights}
    if "gathered" in kinds:
        yield wrap(_GATHERED, "  ")
    if "slices" in kinds:
        yield wrap(_ROWS if has_rows else _NO_ROWS, "  ")
    for finding in plan.findings:
        yield wrap(f"warning: {finding}", "  - ", indent=4)


def _shape(weight: PlannedWeight) -> str:
    return " x ".join(map(str, weight.shape)) or "a number"


def _cut(weight: PlannedWeight) -> str:
    """`axis 1 in 2: by columns`."""
    cuts = [f"axis {axis} in {count}" for axis, count in enumerate(weight.slices) if count > 1]
    return ": ".join([", ".join(cuts) or "whole", *([weight.reason] if weight.reason else [])])


def _size(count: int) -> str:
    return format_bytes(count, binary=True)
