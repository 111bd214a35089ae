"""Sharding mode: which tensors of a training each worker holds a shard of, instead of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from tfdist.errors import UsageError
from tfdist.sharding.mesh import Mesh
from tfdist.sharding.shard_groups import mesh_over

ShardMode = Literal["none", "zero1", "zero2", "zero3"]
"""The modes that `--shard` trains in, from the most memory to the least."""

Offload = Literal["none", "optimizer", "optimizer:disk"]
"""The value of `--offload`: what it keeps off the device that trains, in the host's memory or on its disk."""

Holding = Literal["parameters", "gradients", "optimizer"]
"""Something that a training holds for each weight: the weight, its gradient, or the state of the optimizer."""

CUT: Mapping[str, frozenset[Holding]] = MappingProxyType(
    {
        "none": frozenset(),
        "zero1": frozenset({"optimizer"}),
        "zero2": frozenset({"optimizer", "gradients"}),
        "zero3": frozenset({"optimizer", "gradients", "parameters"}),
    }
)
"""Mode -> what it cuts. The names are those of ZeRO (Rajbhandari et al., 2020, arXiv:1910.02054); zero3 is FSDP's."""

WHOLE_BELOW = 1 << 14
"""Elements from which on a parameter is cut: biases, norms and small matrices stay whole.

To gather one costs as much in waiting as it saves nothing in memory: 64 KiB in float32.
"""

ONE_DEVICE_A_WORKER = "--shard trains one device a worker: --nproc N gives a GPU to each"


@dataclass(frozen=True)
class Sharding:
    """The sharding of a run.

    Attributes:
        mode: What is cut; "none", where layouts alone cut something.
        mesh: Who shares it: each group along `shard` holds one whole of what is cut.
        layouts: The mesh along which layouts cut parameters, whatever the mode is: `keras.distribution.ModelParallel`,
            `--tensor`. None where there are none.
        whole_below: Parameters without a layout of fewer elements stay whole on every worker.

    Raises:
        UsageError: There is no such mode, or nothing is cut.
    """

    mode: ShardMode
    mesh: Mesh
    layouts: Mesh | None = None
    whole_below: int = WHOLE_BELOW

    def __post_init__(self) -> None:
        modes = [mode for mode in get_args(ShardMode) if mode != "none" or self.layouts is not None]
        if self.mode not in modes:
            raise UsageError(f"A sharding's mode is one of {', '.join(modes)}. Received: {self.mode!r}")

    @property
    def shares(self) -> int:
        """The number of shards there are of what is cut."""
        return self.mesh.size("shard")

    def share(self, worker: int) -> int:
        """Returns which of them a worker has."""
        return self.mesh.place("shard", worker)

    @property
    def cuts_parameters(self) -> bool:
        """True if each worker holds parts of some parameters: by the mode, or by layouts."""
        return self.layouts is not None or self.cuts("parameters")

    @property
    def shares_slices(self) -> bool:
        """True if workers with the same slice of a parameter share its gradient and its state out.

        Groups of `--shard-over` have a copy each.
        """
        return self.layouts is not None and self.cuts("optimizer") and self.mesh.size("data") == 1

    def cuts(self, holding: Holding) -> bool:
        """Returns whether each worker holds a shard of these tensors alone, of parameters without a layout."""
        return holding in CUT[self.mode]

    def __str__(self) -> str:
        """`zero2 over 4 workers`."""
        data, shard = self.mesh.size("data"), self.mesh.size("shard")
        return f"{self.mode} over {shard} workers" + (f" in each of {data} groups" if data > 1 else "")


def sharding_of(mode: ShardMode, over: str | int, hosts: Sequence[str]) -> Sharding | None:
    """Returns how workers shard in a mode; None where nothing is cut, as in a worker alone.

    Args:
        mode: Of `--shard`.
        over: Of `--shard-over`.
        hosts: The host of each worker of the job, in the order of the cluster.

    Raises:
        UsageError: The workers cannot be put into the groups of `--shard-over`.
    """
    return None if mode == "none" or len(hosts) < 2 else Sharding(mode, mesh_over(over, hosts))


def is_off_device(offload: Offload, gpu: bool) -> bool:
    """Returns whether the optimizer's state is not in the memory in which a device trains: without a GPU that of the
    host."""
    return offload == "optimizer:disk" or (offload == "optimizer" and gpu)


def further_offloads(offload: Offload, gpu: bool) -> tuple[Offload, ...]:
    """Returns what of `--offload` would take the optimizer's state off a device where another choice does not.

    Args:
        offload: The other choice.
        gpu: Whether the device has memory of its own, beside that of its host.
    """
    if is_off_device(offload, gpu):
        return ()
    return ("optimizer", "optimizer:disk") if gpu else ("optimizer:disk",)


def goes_with_offload(mode: str, has_tables: bool) -> bool:
    """Returns whether a run can offload in a mode, where workers share tables of embeddings, or do not."""
    return mode != "none" or not has_tables


def check_rows(rows: int | None) -> None:
    """Raises `UsageError` unless it is None, or a number of rows above which embeddings are sharded."""
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise UsageError(f"--shard-embeddings expects a number of rows of 1 or more. Received: {rows!r}")


def check_devices(
    mode: ShardMode, devices: int, which: str, rows: int | None = None, offload: Offload = "none"
) -> None:
    """Refuses to shard, or to offload, in a worker with several devices.

    Args:
        mode: Of `--shard`.
        devices: Replicas of the worker.
        which: What they are, such as `--logical-devices 2`.
        rows: Of `--shard-embeddings`; None where no embedding is to be sharded.
        offload: Of `--offload`.

    Raises:
        UsageError: It has several, and is to shard or to offload.
    """
    if mode != "none" and devices > 1:
        raise UsageError(f"{ONE_DEVICE_A_WORKER}. Received: --shard {mode} with {which}")
    if offload != "none" and devices > 1:
        raise UsageError(
            "--offload trains one device a worker: --nproc N gives a GPU to each. Received: --offload "
            f"{offload} with {which}"
        )
    if rows is not None and devices > 1:
        raise UsageError(
            "--shard-embeddings trains one device a worker: --nproc N gives a GPU to each. Received: "
            f"--shard-embeddings {rows} with {which}"
        )
