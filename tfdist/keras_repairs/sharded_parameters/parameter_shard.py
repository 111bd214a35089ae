"""What a worker stores of a weight."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.sharded_parameters.summed_gradients import is_sum_of, is_whole, keep_whole
from tfdist.keras_repairs.sharding.shards import FlatShard, FullOnDemand
from tfdist.runtime.collectives.whole_arrays import joined_array

_FULL: AttachedValue[tf.Tensor | FullOnDemand] = AttachedValue("full_weight_to_be_saved")


@dataclass(frozen=True, eq=False)
class ParameterShard(FlatShard):
    """A worker's shard of a weight.

    Attributes:
        strategy: Whose workers share it, also in threads in which it is not in force.
    """

    strategy: tf.distribute.Strategy
    sums_at_tape = True

    @property
    def description(self) -> str:
        return f"the weight {self.variable.path} is cut"

    @property
    def shown(self) -> tf.Tensor | None:
        """The full value inside of `showing`."""
        found = _FULL.get(self.variable)
        return found.on_host() if isinstance(found, FullOnDemand) else found

    def full(self) -> NDArray:
        return joined_array(self.stored.numpy(), self.cut, self.strategy)

    def is_summed(self, gradient: Any) -> bool:
        return not is_whole(gradient) and is_sum_of(gradient, self.variable)

    def keep_full(self, gradient: Any) -> Any:
        return keep_whole(gradient)

    @contextlib.contextmanager
    def showing(self, full: tf.Tensor | FullOnDemand) -> Iterator[None]:
        """See `Shard`; what stores the shard stays."""
        _FULL.set(self.variable, full)
        try:
            yield
        finally:
            _FULL.set(self.variable, None)
