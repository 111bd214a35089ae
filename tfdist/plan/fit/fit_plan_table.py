"""The plan of a script's first `fit` as text for people."""

from __future__ import annotations

from collections.abc import Iterator

from tfdist.plan.fit.fit_plan import FitPlan
from tfdist.plan.memory.layout_table import render_layouts
from tfdist.plan.plan import BatchSizes
from tfdist.text import format_bytes, format_count, format_duration, table, wrap

_LABEL = 15
_MOST_WORKERS = 16
_SENT = {
    "none": "summed over {replicas}",
    "zero1": "summed over {replicas}; the weights, {weights}, are gathered after the update",
    "zero2": "summed over {replicas}, each part on its worker; the weights, {weights}, are gathered after the update",
    "zero3": "summed over {replicas}, each part on its worker; the weights, {weights}, are gathered layer by layer, "
    "for the forward and for the backward pass",
    "tensor": "summed over {replicas}, each slice on its worker; with what is gathered a worker sends about {sent}",
}
_ROWS = (
    ("parameters", "parameters"),
    ("gradients", "gradients"),
    ("optimizer state", "optimizer"),
    ("a layer, whole", "whole_layer"),
)


def render(plan: FitPlan, *, with_modes: bool = False) -> str:
    """The whole plan.

    Args:
        plan: The plan.
        with_modes: Whether to show what a device holds in each mode of `--shard`, and the layouts of weights.
    """
    blocks = ["\n".join(_head(plan)), "\n".join(_exactness(plan))]
    if with_modes:
        blocks.append("\n".join(_modes(plan)))
        blocks += [] if plan.layouts is None else [render_layouts(plan.layouts)]
    return "\n\n".join(blocks)


def _head(plan: FitPlan) -> Iterator[str]:
    tried = format_count(plan.found["tried"]["steps"], "step")
    yield f"{plan.target}: the plan of its first fit, by {tried} of it"
    yield _line("replicas", str(plan.found["on"]))
    yield _line("model", _model(plan))
    yield _line("data", _data(plan))
    yield _line("steps", _steps(plan))
    yield _line("global batch", _batch(plan))
    if plan.workers > 1:
        yield _line("rows", _rows(plan))
    if plan.tail is not None:
        yield _line("last batch", f"{format_count(plan.tail.samples, 'sample')}{_each(plan.tail)}")
    yield _line("memory", _memory(plan))
    yield _line("sends", _sends(plan))
    yield _line("time", _time(plan))


def _model(plan: FitPlan) -> str:
    model = plan.found["model"]
    trained = f"{model['trainable_parameters']:,} of them trained by {model['optimizer']}"
    own = ", ".join(model["overrides"])
    return (
        f"{model['class']} {model['name']!r}, {format_count(model['parameters'], 'parameter')}, {trained}"
        f"{f'; {own} of its own' if own else ''}"
    )


def _data(plan: FitPlan) -> str:
    data = plan.found["data"]
    return f"{data['kind']}, {format_count(data['samples'], 'sample')}" if data["samples"] else str(data["kind"])


def _steps(plan: FitPlan) -> str:
    steps, epochs = plan.found["data"]["steps"], plan.found["epochs"]
    if not steps:
        return "as many as the data have, which is not known before they end"
    in_all = f", {steps * epochs:,} in {format_count(epochs, 'epoch')}" if epochs else ""
    return f"{steps:,} an epoch{in_all}"


def _batch(plan: FitPlan) -> str:
    if not plan.batch_size:
        return "not known"
    return f"{format_count(plan.batch_size, 'sample')}{_each(plan.batch)}"


def _each(batch: BatchSizes) -> str:
    if batch.smallest == batch.largest:
        return f", {batch.largest:,} on each replica"
    empty = f", none on {format_count(batch.empty, 'replica')}" if batch.empty else ""
    return f", {batch.smallest:,} or {batch.largest:,} on each replica{empty}"


def _rows(plan: FitPlan) -> str:
    shown = [f"worker {worker}: {rows:,}" for worker, rows in enumerate(plan.rows[:_MOST_WORKERS])]
    more = plan.workers - len(shown)
    return ", ".join([*shown, *([f"and {more:,} more workers alike"] if more > 0 else [])])


def _memory(plan: FitPlan) -> str:
    held, peak = plan.held, plan.found["memory"]["peak"]
    parts = [f"{format_bytes(held[name], binary=True)} {label}" for label, name in _ROWS if held[name]]
    other = plan.found["memory"]["other"]
    parts += [f"{format_bytes(other, binary=True)} other variables"] if other else []
    device = "the fullest GPU" if peak["of"] == "GPU" else "the chief's process"
    return f"{', '.join(parts)}; {device} held {format_bytes(peak['bytes'], binary=True)} at most"


def _sends(plan: FitPlan) -> str:
    if plan.replicas == 1:
        return "nothing: there is one replica"
    memory, replicas = plan.found["memory"], format_count(plan.replicas, "replica")
    whole, mode = memory["modes"].get("none", plan.held)["parameters"], memory["mode"]
    # Weights that are too small are not cut.
    mode = "zero2" if mode == "zero3" and plan.held["parameters"] == whole else mode
    sent = "" if plan.layouts is None else format_bytes(plan.layouts.sent, binary=True)
    how = _SENT[mode].format(replicas=replicas, weights=format_bytes(whole, binary=True), sent=sent)
    also = "; and what is gathered, as below" if any("gathered" in line["text"] for line in plan.notes) else ""
    return f"{format_bytes(memory['gradients'], binary=True)} of gradients a step, {how}{also}"


def _time(plan: FitPlan) -> str:
    first = f"{plan.first_seconds:.2g} s for the first step, which is traced and checked"
    seconds = plan.step_seconds
    if seconds is None:
        return first
    rate = f", {plan.batch_size / seconds:,.0f} samples/s" if plan.batch_size and seconds else ""
    epoch = plan.epoch_seconds
    by_that = "" if epoch is None else f"; {format_duration(epoch)} for the steps of an epoch"
    return f"{1000 * seconds:.3g} ms a step{rate}{by_that}; {first}"


def _exactness(plan: FitPlan) -> Iterator[str]:
    if plan.replicas == 1:
        yield "exactness: one replica computes what Keras computes"
    else:
        yield "exactness: each replica computes its own rows, but for what these lines say"
    for line in plan.notes:
        head = "warning: " if line["level"] == "warning" else ""
        yield wrap(f"{head}{line['text']}", "  - ", indent=4)


def _modes(plan: FitPlan) -> Iterator[str]:
    modes = plan.found["memory"]["modes"]
    option = "--shard" if plan.layouts is None else "layouts"
    mode = "in each mode of --shard" if plan.layouts is None else "without and with layouts"
    yield f"memory that a device holds {mode}, without activations"
    rows = [(option, *modes)]
    for label, name in _ROWS:
        if any(held[name] for held in modes.values()):
            rows.append((label, *(format_bytes(held[name], binary=True) for held in modes.values())))
    yield from table(rows, "l" + "r" * len(modes), indent="  ", gap=3)
    if len(modes) == 1:
        yield wrap("--shard shares a model out to several workers, such as --nproc 2.", "  ")


def _line(label: str, text: str) -> str:
    return wrap(text, f"  {label:{_LABEL}}")
