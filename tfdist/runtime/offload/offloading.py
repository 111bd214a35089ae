"""A run's choice of where the optimizer's state is kept, and how it gets there."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfdist.runtime.offload.disk_tensor import DiskTensor, Turns
from tfdist.runtime.offload.scratch_file import ScratchFile
from tfdist.sharding.sharding_mode import Offload

ON_DISK_FROM = 1 << 14
"""Elements from which on a tensor goes to disk: what smaller ones take in memory is less than it costs to read them."""


@dataclass
class Disk:
    """A worker's file on disk.

    Attributes:
        file: The file.
        turns: Those of the operations on it.
    """

    file: ScratchFile
    turns: Turns = field(default_factory=Turns)


@dataclass(frozen=True)
class Offloading:
    """Optimizers of a run keep their state in host memory, and compute there.

    Attributes:
        disk: Where large tensors are kept instead; None for memory alone.
    """

    disk: Disk | None = None

    @property
    def choice(self) -> Offload:
        """The value of `--offload`."""
        return "optimizer" if self.disk is None else "optimizer:disk"

    def __str__(self) -> str:
        """`on disk`."""
        return "in host memory" if self.disk is None else "on disk"

    def keep(self, variable: Any) -> None:
        """Moves the value of a Keras variable, which was made in host memory, to where it is to be kept."""
        value = variable._value
        if self.disk is not None and value.shape.num_elements() >= ON_DISK_FROM:
            variable._value = DiskTensor(self.disk.file, self.disk.turns, value.numpy(), value.name)


def offloading_of(choice: str, folder: Path) -> Offloading | None:
    """Returns how a run offloads.

    Args:
        choice: Of `--offload`.
        folder: Of the run, on whose disk it may.

    Raises:
        RunDirError: No file can be made there.
    """
    if choice == "none":
        return None
    return Offloading(Disk(ScratchFile(folder)) if choice == "optimizer:disk" else None)


def on_host(offloading: Offloading | None) -> contextlib.AbstractContextManager[Any]:
    """Inside, operations and variables are on the host's CPU, where a run offloads."""
    return contextlib.nullcontext() if offloading is None else tf.device("CPU:0")
