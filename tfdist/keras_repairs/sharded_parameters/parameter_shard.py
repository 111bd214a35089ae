"""The part of a weight that a worker stores, for all who read it, assign it and sum its gradient."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import tensorflow as tf

from tfdist.keras_repairs.sharded_parameters.summed_gradients import is_full, is_sum_of, keep_full
from tfdist.keras_repairs.sharding_policies.shards import FullOnDemand, Shard

Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices


class ParameterShard(Shard):
    """A worker's shard of a weight, which has that as its value."""

    sums_at_tape = True
    _shown: tf.Tensor | FullOnDemand | None = None

    @property
    @abstractmethod
    def sum_over_shards(self) -> Callable[[tf.Tensor], tf.Tensor]:
        """Adds up what is computed of each worker's shard; see `VariablePolicy`."""

    @abstractmethod
    def like(self, variable: Any) -> Shard:
        """Returns what this worker stores of a variable of an optimizer's state, which is cut as the weight."""

    @abstractmethod
    def of_sum(self, total: Gradient) -> Gradient:
        """This worker's shard of a sum of gradients that all workers have in full."""

    @abstractmethod
    def join(self, shard: tf.Tensor) -> tf.Tensor:
        """The full weight, of which each worker gives its shard in some dtype. All workers call this together."""

    @abstractmethod
    def stored_of(self, full: tf.Tensor) -> tf.Tensor:
        """This worker's shard of a full value, in memory of its own."""

    @abstractmethod
    def sum_of(self, gradient: Gradient) -> Gradient:
        """This worker's shard of the sum of all workers' gradients, of which nobody takes a gradient again."""

    @abstractmethod
    def full_sum(self, total: Gradient) -> Gradient:
        """The full sum of gradients, of which `sum_of` has returned this worker's shard.

        Raises:
            UnsupportedError: It is sparse, and one of several sums of a variable.
        """

    def in_slices(self, dtype: tf.DType) -> tf.Tensor | None:
        """What stands for the full weight where code is traced that computes with slices of it; None elsewhere."""
        return None

    @property
    def description(self) -> str:
        return f"the weight {self.variable.path} is cut"

    @property
    def shown(self) -> tf.Tensor | None:
        """The full value inside of `showing`."""
        return self._shown.on_host() if isinstance(self._shown, FullOnDemand) else self._shown

    def is_summed(self, gradient: Any) -> bool:
        return not is_full(gradient) and is_sum_of(gradient, self.variable)

    def keep_full(self, gradient: Any) -> Any:
        return keep_full(gradient)

    @contextlib.contextmanager
    def showing(self, full: tf.Tensor | FullOnDemand) -> Iterator[None]:
        """See `Shard`; what stores the shard stays."""
        self._shown = full
        try:
            yield
        finally:
            self._shown = None
