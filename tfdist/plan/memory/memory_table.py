"""The memory of a run's devices as text for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tfdist.plan.memory.layout_table import render_layouts
from tfdist.plan.memory.memory_plan import MARGIN, MemoryPlan, ModeMemory
from tfdist.text import format_bytes, format_count, table, wrap

_ROWS: tuple[tuple[str, Callable[[ModeMemory], int | None]], ...] = (
    ("parameters", lambda mode: mode.parameters),
    ("gradients", lambda mode: mode.gradients),
    ("optimizer state", lambda mode: mode.optimizer),
    ("a layer, whole", lambda mode: mode.whole_layer or None),
    ("other variables", lambda mode: mode.frozen),
    ("batches", lambda mode: mode.batches),
    ("activations", lambda mode: mode.activations),
    ("process", lambda mode: mode.process or None),
    ("all", lambda mode: mode.total),
    ("at most", lambda mode: None if mode.activations is None else mode.most),
    ("elsewhere, state", lambda mode: mode.offloaded or None),
)


def render_memory(plan: MemoryPlan) -> str:
    """The table, and what fits."""
    return "\n".join(_lines(plan))


def _lines(plan: MemoryPlan) -> Iterator[str]:
    devices = "on the device" if plan.devices == 1 else f"on the fullest of {plan.devices:,} devices"
    yield f"memory {devices}, {format_count(plan.share, 'sample')} of a step, {plan.sizes.optimizer}"
    rows = [(plan.option, *(mode.mode for mode in plan.modes))]
    for name, of in _ROWS:
        numbers = [of(mode) for mode in plan.modes]
        if any(number is not None for number in numbers):
            rows.append((name, *("" if number is None else _size(number) for number in numbers)))
    yield from table(rows, "l" + "r" * len(plan.modes), indent="  ", gap=3)
    yield _wrapped(_about_activations(plan))
    if plan.sizes.made:
        yield _wrapped("The model could not be traced without its weights: they were made, and dropped.")
    if plan.why_one_mode:
        yield _wrapped(f"One mode is shown: {plan.why_one_mode}.")
    if plan.device_memory is not None and plan.is_whole:
        yield _wrapped(_verdict(plan, plan.device_memory))
    if plan.layouts is not None:
        yield f"\n{render_layouts(plan.layouts)}"


def _about_activations(plan: MemoryPlan) -> str:
    sizes = plan.sizes
    if sizes.activations is None:
        return f"Activations cannot be told: {sizes.why_no_activations}. A step needs more than this."
    text = (
        "Activations are an estimate from the graph of a step. Measured peaks were up to "
        f"{1 + MARGIN:g} times it (docs/sharding.md), which is what the last line has."
    )
    if sizes.uncounted:
        kinds = ", ".join(sizes.uncounted)
        text += f" Outputs of {kinds} have no known size and count as nothing: what fits is not said."
    return text


def _verdict(plan: MemoryPlan, memory: int) -> str:
    has = f"{plan.device} has {_size(memory)}"
    smallest = plan.smallest_mode
    if smallest is None:
        least = min(plan.modes, key=lambda mode: mode.most)
        how = "more workers, " if len(plan.modes) > 1 else ""
        offloaded = plan.smallest_offloaded
        if offloaded is not None:
            where = "the host's memory" if plan.further_offload == "optimizer" else "the disk of the run directory"
            return (
                f"{has}: no mode fits without --offload. The first that does with --offload {plan.further_offload} is "
                f"--shard {offloaded.mode}: it leaves {_size(memory - offloaded.most)}, and keeps "
                f"{_size(offloaded.offloaded)} of the optimizer's state a worker in {where}."
            )
        return (
            f"{has}: no mode fits. {_size(least.most - memory)} less would, with {plan.option} {least.mode}. A smaller "
            f"batch has smaller activations; {how}a lower precision or a smaller model need less of the rest."
        )
    rest = _size(memory - smallest.most)
    if smallest is plan.modes[0]:
        return f"{has}: it fits without {plan.option}, and leaves {rest}."
    return f"{has}: the first mode that fits is {plan.option} {smallest.mode}, and leaves {rest}."


def _size(count: int) -> str:
    return format_bytes(count, binary=True)


def _wrapped(text: str) -> str:
    return wrap(text, "  ")
