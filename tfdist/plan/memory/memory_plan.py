"""Plans what a device holds in each mode of `--shard`, and finds the first mode that fits."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import get_args

from tfdist.errors import UsageError
from tfdist.plan.memory.layout_plan import LayoutPlan, plan_layouts
from tfdist.plan.memory.model_state import fullest_model_state
from tfdist.plan.memory.step_sizes import StepSizes
from tfdist.plan.plan import DataPlan
from tfdist.sharding.group_sizes import check_groups
from tfdist.sharding.shard_groups import mesh_over
from tfdist.sharding.sharding_mode import (
    CUT,
    ONE_DEVICE_A_WORKER,
    Offload,
    ShardMode,
    check_devices,
    further_offloads,
    goes_with_offload,
    is_off_device,
)

MARGIN = 1.5
"""Of the estimated activations, how much more were measured at most: docs/sharding.md has the measurements."""


@dataclass(frozen=True)
class ModeMemory:
    """The memory of the fullest device in one mode, in bytes.

    Attributes:
        mode: Of `--shard`, or the number of `--tensor`.
        parameters: Weights that are trained.
        gradients: Their gradients.
        optimizer: The optimizer's state beside them.
        whole_layer: Weights that are whole at a time, and their gradients; 0 where weights are not cut.
        frozen: Other variables.
        batches: Batches that wait or are trained on.
        activations: What a step computes besides, and its updates of weights; None where it cannot be told.
        process: Of TensorFlow, Python and the input of a worker, where devices share the host's memory; else 0.
        offloaded: The optimizer's state that a worker keeps elsewhere than on its device, as `--offload` says.
    """

    mode: str
    parameters: int
    gradients: int
    optimizer: int
    whole_layer: int
    frozen: int
    batches: int
    activations: int | None
    process: int
    offloaded: int = 0

    @property
    def total(self) -> int:
        """All of it; activations count as nothing where they are not known."""
        of_model = self.parameters + self.gradients + self.optimizer + self.whole_layer + self.frozen
        return of_model + self.batches + self.process + (self.activations or 0)

    @property
    def most(self) -> int:
        """All of it, with as much more for activations as was measured at most."""
        return self.total + int(MARGIN * (self.activations or 0))

    def with_state_elsewhere(self) -> ModeMemory:
        """The same with the optimizer's state kept elsewhere than on the device."""
        return replace(self, optimizer=0, offloaded=self.optimizer + self.offloaded)


@dataclass(frozen=True)
class MemoryPlan:
    """The memory of a run's devices.

    Attributes:
        sizes: Of the model and a step.
        share: Samples of a step on the fullest device.
        devices: Devices of all workers.
        modes: What each holds, by mode, the one that cuts nothing first.
        why_one_mode: Why no other mode is planned; empty where there are several.
        device_memory: Bytes that a device has; None where it is not known.
        device: Which device that is, in words.
        further_offload: What of `--offload` would take the optimizer's state off the devices; "none" where it is not
            there, or nothing would.
        option: Which option has the modes.
        layouts: The layouts of weights; None where none is cut by one.
    """

    sizes: StepSizes
    share: int
    devices: int
    modes: tuple[ModeMemory, ...]
    why_one_mode: str
    device_memory: int | None
    device: str
    further_offload: Offload = "none"
    option: str = "--shard"
    layouts: LayoutPlan | None = None

    @property
    def is_whole(self) -> bool:
        """True if all of a step is known, so that it can be said what fits."""
        return self.sizes.activations is not None and not self.sizes.uncounted

    @property
    def smallest_mode(self) -> ModeMemory | None:
        """The mode that cuts least among those that fit; None where none does, or it cannot be said."""
        if self.device_memory is None or not self.is_whole:
            return None
        return next((mode for mode in self.modes if mode.most <= self.device_memory), None)

    @property
    def smallest_offloaded(self) -> ModeMemory | None:
        """The mode that cuts least among those that fit with `further_offload`; None as in `smallest_mode`."""
        if self.device_memory is None or not self.is_whole or self.further_offload == "none":
            return None
        has_tables = self.devices > 1 and any(weight.by_rows for weight in self.sizes.weights)
        modes = (mode.with_state_elsewhere() for mode in self.modes if goes_with_offload(mode.mode, has_tables))
        return next((mode for mode in modes if mode.most <= (self.device_memory or 0)), None)


def plan_memory(
    plan: DataPlan,
    sizes: StepSizes,
    device_memory: int | None,
    device: str,
    gpu: bool,
    offload: Offload = "none",
    over: str | int = "all",
    tensor: int = 1,
    mode: ShardMode = "none",
) -> MemoryPlan:
    """Shares the sizes of a model and a step out to the devices of a run.

    Args:
        plan: The plan of the run's data.
        sizes: Of the model and of a step on the fullest device.
        device_memory: Bytes that each device has; None where it is not known.
        device: Which device that is, in words.
        gpu: Whether devices have memory of their own, beside that of their workers' processes.
        offload: What is kept elsewhere than on the devices.
        over: Which workers share one copy of what is cut, as `--shard-over` has it.
        tensor: How many workers share each weight, as `--tensor` has it; the modes are then without it and with it.
        mode: Of `--shard`, beside `--tensor`.

    Raises:
        UsageError: Workers of several devices were to share tables of embeddings, or to offload; or they do not make
            the groups of `over`.
    """
    layout = plan.layout
    if layout.workers > 1 and layout.per_worker > 1 and any(weight.by_rows for weight in sizes.weights):
        raise UsageError(f"{ONE_DEVICE_A_WORKER}. Received: embeddings to shard, and {layout.per_worker} devices each")
    if tensor > 1:
        return _with_layouts(plan, sizes, device_memory, device, gpu, tensor, mode, offload)
    check_devices("none", layout.per_worker, f"{layout.per_worker} devices each", offload=offload)
    is_elsewhere = is_off_device(offload, gpu)
    can_offload = sizes.cut is not None and layout.per_worker == 1
    further: tuple[Offload, ...] = further_offloads(offload, gpu) if can_offload else ()
    why = _why_one_mode(sizes, layout.workers, layout.per_worker)
    modes = ("none",) if why else get_args(ShardMode)
    hosts = [str(worker * layout.hosts // layout.workers) for worker in range(layout.workers)]
    shares = layout.workers if why else mesh_over(over, hosts).size("shard")
    return MemoryPlan(
        sizes=sizes,
        share=plan.train.batch.largest,
        devices=layout.replicas,
        modes=tuple(_mode(mode, sizes, plan, shares, gpu, is_elsewhere) for mode in modes),
        why_one_mode=why,
        device_memory=device_memory,
        device=device,
        further_offload=next(iter(further), "none"),
    )


def _with_layouts(
    plan: DataPlan,
    sizes: StepSizes,
    device_memory: int | None,
    device: str,
    gpu: bool,
    tensor: int,
    mode: ShardMode,
    offload: Offload,
) -> MemoryPlan:
    """The plan of a run whose weights are cut by layouts."""
    check_groups(plan.layout.workers, tensor=tensor, context=1)
    layouts = plan_layouts(sizes.weights, plan.layout.workers, tensor, mode=mode)
    whole = replace(sizes, weights=tuple(replace(weight, slices=()) for weight in sizes.weights))
    alone = _mode("none", whole, plan, 1, gpu, is_elsewhere=False)
    activations = _activations(sizes, tensor, CUT["zero3"])
    cut = replace(alone, mode=str(tensor), activations=activations, **asdict(layouts.state))
    return MemoryPlan(
        sizes=sizes,
        share=plan.train.batch.largest,
        devices=plan.layout.replicas,
        modes=(replace(alone, mode="1"), cut.with_state_elsewhere() if is_off_device(offload, gpu) else cut),
        why_one_mode="",
        device_memory=device_memory,
        device=device,
        option="--tensor",
        layouts=layouts,
    )


def _why_one_mode(sizes: StepSizes, workers: int, per_worker: int) -> str:
    if workers == 1:
        return "--shard shares a model out to several workers, such as --nproc 2"
    if per_worker > 1:
        return f"--shard trains one device a worker, and these workers have {per_worker} each"
    return "" if sizes.cut is not None else sizes.why_not_cut


def _mode(mode: str, sizes: StepSizes, plan: DataPlan, shares: int, gpu: bool, is_elsewhere: bool) -> ModeMemory:
    held = fullest_model_state(mode, sizes.weights, sizes.cut, shares)
    memory = plan.train.memory
    return ModeMemory(
        mode=mode,
        parameters=held.parameters,
        gradients=held.gradients,
        optimizer=0 if is_elsewhere else held.optimizer,
        offloaded=held.optimizer if is_elsewhere else 0,
        whole_layer=held.whole_layer,
        frozen=sizes.frozen,
        batches=memory.batches // plan.layout.per_worker,
        activations=_activations(sizes, shares, CUT[mode]),
        process=0 if gpu else sizes.process + memory.held // plan.layout.per_worker,
    )


def _activations(sizes: StepSizes, shares: int, cut: frozenset[str]) -> int | None:
    """Bytes of a step's fullest moment: the first weights are updated while the last gradients are computed."""
    if sizes.activations is None:
        return None
    return sizes.activations + (sizes.update // shares if "optimizer" in cut else sizes.update)
