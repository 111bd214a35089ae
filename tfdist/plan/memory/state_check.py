"""The check before a run's first step that what it holds between steps fits, and what would make it fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from tfdist.errors import UsageError
from tfdist.plan.memory.model_state import ModelState, model_states
from tfdist.plan.memory.step_sizes import WeightSizes
from tfdist.sharding.sharding_mode import Offload, ShardMode, further_offloads, goes_with_offload, is_off_device
from tfdist.text import format_bytes

_OTHERS = "A lower precision, another optimizer or a smaller model need less."


@dataclass(frozen=True)
class SharedMemorySize:
    """Memory that holds what some workers train.

    Attributes:
        size: Bytes, all that can be had: it is not asked what is in use. None where it cannot be told.
        name: What has it, in words, such as `this host`.
        workers: Those whose devices have it, by their index in the job.
        copies: Devices of each of them that have it.
        host: The memory of the host, where this is that of a device; None where it is the host's.
    """

    size: int | None
    name: str
    workers: tuple[int, ...]
    copies: int = 1
    host: SharedMemorySize | None = None


@dataclass(frozen=True)
class Training:
    """A training that is about to begin.

    Attributes:
        optimizer: The name of the optimizer's class.
        weights: The weights that it trains, and its state beside them.
        kind: How that can be cut: between `elements`, or between `variables`; None where it cannot be.
        mode: Of `--shard`.
        workers: Those that share one copy of what is cut.
        offload: What is kept elsewhere than on the devices.
    """

    optimizer: str
    weights: Sequence[WeightSizes]
    kind: str | None
    mode: ShardMode
    workers: int
    offload: Offload = "none"


def check_state_fits(training: Training, memory: SharedMemorySize) -> None:
    """Refuses a training whose weights and optimizer's state alone are more than the memory that they would be in.

    Gradients and activations come on top of that, and are not counted: no training that would run is refused.

    So is one whose workers of a host together offload more state to its memory than that is.

    Raises:
        UsageError: They are; the text names the first mode of `--shard` that would fit, gradients included, and the
            first that would with `--offload`.
    """
    _check_device(training, memory)
    if training.offload == "optimizer" and memory.host is not None:
        _check_host(training, memory, memory.host)


def _check_device(training: Training, memory: SharedMemorySize) -> None:
    held = _together(training, training.mode, memory)
    kept = 0 if is_off_device(training.offload, memory.host is not None) else held.optimizer
    least = held.parameters + kept
    if memory.size is None or least <= memory.size:
        return
    whose = "" if len(memory.workers) * memory.copies == 1 else f" for {_holders(memory)}"
    state = f" and {_size(kept)} of what {training.optimizer} keeps beside them" if kept else ""
    offload = "" if training.offload == "none" else f" --offload {training.offload}"
    raise UsageError(
        f"Too little memory{whose} with {_how(training)}{offload}. Expected at least {_size(least)}: "
        f"{_size(held.parameters)} of weights{state}; gradients ({_size(held.gradients)}) and activations come on top. "
        f"Received: {memory.name} has {_size(memory.size)}. {' '.join(_remedies(training, memory, memory.size))}"
    )


def _check_host(training: Training, memory: SharedMemorySize, host: SharedMemorySize) -> None:
    """Refuses state that devices with memory of their own leave to their host, where that has too little for it."""
    kept = _together(training, training.mode, host).optimizer
    if host.size is None or kept <= host.size:
        return
    raise UsageError(
        f"Too little memory of the host for {_holders(host)} with {_how(training)} --offload optimizer. "
        f"Expected at least {_size(kept)}, which {training.optimizer} keeps beside the weights. Received: {host.name} "
        f"has {_size(host.size)}. {' '.join(_host_remedies(training, memory))}"
    )


def _host_remedies(training: Training, memory: SharedMemorySize) -> Iterator[str]:
    yield "--offload optimizer:disk keeps it on the disk of the run directory instead."
    if training.kind is None:
        yield _OTHERS
        return
    mode = _first_mode(training, memory, memory.size, "optimizer")
    if mode is not None and memory.host is not None:
        yield f"--shard {mode} would fit: it is then {_size(_together(training, mode, memory.host).optimizer)}."
    elif training.workers > 1:
        yield f"No further mode of --shard fits on {training.workers} workers; on more hosts each keeps less."
    else:
        yield "Workers on more hosts (--workers) share it out with --shard."


def _together(training: Training, mode: str, memory: SharedMemorySize) -> ModelState:
    """Returns what the workers of a memory hold together, on their devices and elsewhere."""
    all_of_them = model_states(mode, training.weights, training.kind, training.workers)
    # Groups of workers, one after another, hold the same.
    held = [all_of_them[worker % training.workers] for worker in memory.workers]
    return ModelState(
        *(
            memory.copies * sum(getattr(of_one, name) for of_one in held)
            for name in ("parameters", "gradients", "optimizer", "whole_layer")
        )
    )


def _remedies(training: Training, memory: SharedMemorySize, size: int) -> Iterator[str]:
    """Sentences, the best remedy first."""
    if training.kind is not None and memory.copies > 1:
        yield "--shard shares a model out to workers of one device each."
    elif training.kind is not None:
        mode = _first_mode(training, memory, size, training.offload)
        if mode is not None:
            total = _size(_on_device(training, mode, memory, training.offload))
            yield f"--shard {mode} would fit: it needs {total}, gradients included, and activations on top."
        elif training.workers > 1:
            yield f"No further mode of --shard fits on {training.workers} workers, and more of them hold less each."
            yield from _with_tensor(training, memory, size)
        yield from _with_offload(training, memory, size, mode)
        if training.workers == 1:
            yield "More workers (--nproc, --workers) share a model out with --shard, or cut its layers with --tensor."
        if mode is not None:
            return
    yield _OTHERS


def _with_tensor(training: Training, memory: SharedMemorySize, size: int) -> Iterator[str]:
    """Yields that `--tensor` has no layer whole, where that is what is too much."""
    whole = _together(training, "zero3", memory).whole_layer
    is_laid_out = any(weight.is_laid_out for weight in training.weights)
    if whole and not is_laid_out and _on_device(training, "zero3", memory, training.offload) - whole <= size:
        yield (
            f"Of what zero3 needs {_size(whole)} are for a layer that is whole at a time; --tensor {training.workers} "
            f"has layers compute with slices, and tfdist plan --tensor {training.workers} --memory says what they take."
        )


def _with_offload(
    training: Training, memory: SharedMemorySize, size: int, fitting: ShardMode | None
) -> Iterator[str]:
    """Yields what `--offload` would make of it, unless a mode fits as soon without it."""
    for offload in further_offloads(training.offload, memory.host is not None):
        mode = _first_mode(training, memory, size, offload)
        if mode is not None and mode != fitting:
            held = _together(training, mode, memory)
            chosen = f"--offload {offload}" if mode == training.mode else f"--shard {mode} --offload {offload}"
            too = " as well" if fitting else ""
            where = "on the disk of the run directory" if offload == "optimizer:disk" else "in the host's memory"
            on_device = _size(held.total - held.optimizer)
            yield f"{chosen} would fit{too}: it needs {on_device}, and keeps {_size(held.optimizer)} {where}."
            return


def _first_mode(
    training: Training, memory: SharedMemorySize, size: int | None, offload: Offload
) -> ShardMode | None:
    """The first mode of `--shard`, from that of the training on, that would fit, gradients included."""
    modes: tuple[ShardMode, ...] = get_args(ShardMode)
    further = modes[modes.index(training.mode) :] if training.workers > 1 else (training.mode,)
    has_tables = training.workers > 1 and any(weight.by_rows for weight in training.weights)
    allowed = (mode for mode in further if offload == "none" or goes_with_offload(mode, has_tables))
    return next((mode for mode in allowed if _fits(training, mode, memory, size, offload)), None)


def _fits(
    training: Training, mode: ShardMode, memory: SharedMemorySize, size: int | None, offload: Offload
) -> bool:
    host = memory.host if offload == "optimizer" else None
    if host is not None and host.size is not None and _together(training, mode, host).optimizer > host.size:
        return False
    return size is None or _on_device(training, mode, memory, offload) <= size


def _on_device(training: Training, mode: ShardMode, memory: SharedMemorySize, offload: Offload) -> int:
    """Bytes that a mode takes of a memory, gradients included."""
    held = _together(training, mode, memory)
    return held.total - (held.optimizer if is_off_device(offload, memory.host is not None) else 0)


def _how(training: Training) -> str:
    """`--shard zero2`, beside layouts or without."""
    layouts = "layouts and " if any(weight.is_laid_out for weight in training.weights) else ""
    return f"{layouts}--shard {training.mode}"


def _holders(memory: SharedMemorySize) -> str:
    workers = f"{len(memory.workers)} workers" if len(memory.workers) > 1 else "a worker"
    return workers + (f" of {memory.copies} devices" if memory.copies > 1 else "")


def _size(count: int) -> str:
    return format_bytes(count, binary=True)
