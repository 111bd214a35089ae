"""The check before a run's first step that what it holds between steps fits, and the mode that would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from tfdist.errors import UsageError
from tfdist.plan.memory.held_state import HeldState, held_states
from tfdist.plan.memory.step_sizes import WeightSizes
from tfdist.sharding.sharding_mode import ShardMode
from tfdist.text import format_bytes


@dataclass(frozen=True)
class SharedMemorySize:
    """Memory that holds what some workers train.

    Attributes:
        size: Bytes, all that can be had: it is not asked what is in use. None where it cannot be told.
        name: What has it, in words, such as `this host`.
        workers: Those whose devices have it, by their index in the job.
        copies: Devices of each of them that have it.
        is_host: Whether it is the memory of the host, and not of a device.
    """

    size: int | None
    name: str
    workers: tuple[int, ...]
    copies: int = 1
    is_host: bool = True


@dataclass(frozen=True)
class Training:
    """What is about to be trained.

    Attributes:
        optimizer: The name of the optimizer's class.
        weights: The weights that it trains, and its state beside them.
        kind: How that can be cut: between `elements`, or between `variables`; None where it cannot be.
        mode: Of `--shard`.
        workers: Those of the job.
    """

    optimizer: str
    weights: Sequence[WeightSizes]
    kind: str | None
    mode: ShardMode
    workers: int


def check_state_fits(training: Training, memory: SharedMemorySize) -> None:
    """Refuses a training whose weights and optimizer's state alone are more than the memory that they would be in.

    Gradients and activations come on top of that, and are not counted: no training that would run is refused.

    Raises:
        UsageError: They are; the text names the first mode of `--shard` that would fit, gradients included.
    """
    held = _together(training, training.mode, memory)
    if memory.size is None or held.between_steps <= memory.size:
        return
    whose = "" if len(memory.workers) * memory.copies == 1 else f" for {_holders(memory)}"
    raise UsageError(
        f"Too little memory{whose} with --shard {training.mode}. Expected at least {_size(held.between_steps)}: "
        f"{_size(held.parameters)} of weights and {_size(held.optimizer)} of what {training.optimizer} keeps beside "
        f"them; gradients ({_size(held.gradients)}) and activations come on top. Received: {memory.name} has "
        f"{_size(memory.size)}. {_remedy(training, memory, memory.size)}"
    )


def _together(training: Training, mode: str, memory: SharedMemorySize) -> HeldState:
    """What the workers of a memory hold together."""
    all_of_them = held_states(mode, training.weights, training.kind, training.workers)
    held = [all_of_them[worker] for worker in memory.workers]
    return HeldState(
        *(
            memory.copies * sum(getattr(of_one, name) for of_one in held)
            for name in ("parameters", "gradients", "optimizer", "whole_layer")
        )
    )


def _remedy(training: Training, memory: SharedMemorySize, size: int) -> str:
    others = "A lower precision, another optimizer or a smaller model need less."
    if training.kind is None:
        return others
    if memory.copies > 1:
        return f"--shard shares a model out to workers of one device each. {others}"
    if training.workers == 1:
        return f"More workers (--nproc, --workers) share a model out with --shard. {others}"
    modes = get_args(ShardMode)
    for mode in modes[modes.index(training.mode) + 1 :]:
        total = _together(training, mode, memory).total
        if total <= size:
            return f"--shard {mode} would fit: it needs {_size(total)}, gradients included, and activations on top."
    return f"No further mode of --shard fits on {training.workers} workers, and more of them hold less each. {others}"


def _holders(memory: SharedMemorySize) -> str:
    workers = f"{len(memory.workers)} workers" if len(memory.workers) > 1 else "a worker"
    return workers + (f" of {memory.copies} devices" if memory.copies > 1 else "")


def _size(count: int) -> str:
    return format_bytes(count, binary=True)
