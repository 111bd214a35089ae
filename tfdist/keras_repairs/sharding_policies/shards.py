"""The shard of a variable that this worker stores, if each worker has one, and how it becomes the full value again."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.base.stored_values import read_shard
from tfdist.runtime.collectives.array_all_gather import all_gather_array, as_array, as_tensor
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.shard_collectives import cut_shard
from tfdist.sharding.cut import Cut
from tfdist.sharding.file_shards import SharedWriting, Writing
from tfdist.sharding.sharding_mode import WHOLE_BELOW


class FullOnDemand:
    """Stands for the value of a variable: what NumPy asks of it is the full value, which is put together then.

    Args:
        shard: What this worker stores.
        read: Puts the full value together.

    Attributes:
        stored: What the variable has the shard in.
    """

    def __init__(self, shard: Shard, read: Callable[[], NDArray]) -> None:
        self.shape = tf.TensorShape(shard.full_shape)
        self.stored = shard.stored
        self.dtype = self.stored.dtype
        self.numpy = read

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return np.asarray(self.numpy(), dtype=dtype)

    def on_host(self) -> tf.Tensor:
        """As a tensor in host memory."""
        with tf.device("CPU:0"):
            return as_tensor(self.numpy())


class Shard(ABC):
    """A worker's shard of a variable.

    Attributes:
        variable: The Keras variable.
        sums_at_tape: Whether a gradient by the variable is this worker's shard of a sum where a tape returns it.
    """

    variable: Any
    sums_at_tape = False

    @property
    @abstractmethod
    def stored(self) -> Any:
        """The `tf.Variable` with the shard, this worker's alone; what stands for one where it is on a disk."""

    @property
    @abstractmethod
    def full_shape(self) -> tuple[int, ...]:
        """The shape on one device."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Elements of the shard; maybe none."""

    @property
    @abstractmethod
    def description(self) -> str:
        """The description of what is sharded, in words: `the weight dense/kernel is cut`."""

    @abstractmethod
    def full(self) -> NDArray:
        """The full value, in host memory. All workers call this together, outside of functions."""

    @abstractmethod
    def of(self, full: Any) -> tf.Tensor:
        """This worker's shard of a full value."""

    @abstractmethod
    def read(self, source: Any) -> NDArray:
        """This worker's shard of an array, or of a dataset of a file, of which little else is read then."""

    @abstractmethod
    def writing(self, workers: int) -> Writing:
        """Who of all workers of a job writes what of the shard that it has."""

    def is_summed(self, gradient: Any) -> bool:
        """Returns whether a gradient is such a sum, and not this replica's own, of the full variable.

        Raises:
            UnsupportedError: It is what somebody has made of one.
        """
        return False

    def keep_full(self, gradient: Any) -> Any:
        """A gradient of the full variable, which is still to be summed; marked as that."""
        return gradient

    @contextlib.contextmanager
    def showing(self, full: tf.Tensor | FullOnDemand) -> Iterator[None]:
        """Inside, who reads the variable gets a full value."""
        variable = self.variable
        before = variable._value, variable._shape
        variable._value, variable._shape = full, self.full_shape
        try:
            yield
        finally:
            variable._value, variable._shape = before


@dataclass(eq=False)
class FlatShard(Shard):
    """A range of the elements, in row-major order: that of a variable which holds it as its value.

    Attributes:
        variable: The Keras variable.
        cut: How the workers share the full value.
        worker: This one's place among them.
    """

    variable: Any
    cut: Cut
    worker: int

    @property
    def stored(self) -> Any:
        value = self.variable._value
        return value.stored if isinstance(value, FullOnDemand) else value

    @property
    def full_shape(self) -> tuple[int, ...]:
        return self.cut.shape

    @property
    def size(self) -> int:
        return self.cut.shard_size(self.worker)

    @property
    def description(self) -> str:
        return f"the state {self.variable.path} is cut"

    def full(self) -> NDArray:
        return all_gather_array(as_array(self.stored), self.cut, tf.distribute.get_strategy())

    def of(self, full: Any) -> tf.Tensor:
        return cut_shard(tf.convert_to_tensor(full), self.cut, self.worker)

    def read(self, source: Any) -> NDArray:
        return read_shard(source, self.cut, self.worker)

    def writing(self, workers: int) -> SharedWriting:
        """Groups of workers that have the same shards write as much as one another, of small values the first alone."""
        if self.cut.size < WHOLE_BELOW:
            return SharedWriting(self.cut.among(workers))
        return SharedWriting(self.cut, workers // self.cut.workers)


def shard_of(variable: Any) -> Shard | None:
    """Returns what this worker stores of a model's variable, whose class says it; None where every worker has it in
    full."""
    found = getattr(variable, "shard", None)
    return found if isinstance(found, Shard) else None


def stored_shards(model: Any) -> list[Shard]:
    """The shards of a model's weights, each once, in the order of its weights."""
    # What Keras writes an export by is no model.
    found = (shard_of(variable) for variable in getattr(model, "weights", ()))
    return [shard for shard in found if shard is not None]


def cuts_parameters() -> bool:
    """Returns whether the strategy in force has each worker store shards of weights."""
    shard = settings_of(tf.distribute.get_strategy()).shard
    return shard is not None and shard.cuts_parameters
