"""What this worker updates of the variables that an optimizer trains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.sharded_embeddings.table_variable import TableVariable, part_view
from tfdist.keras_repairs.sharded_optimizer.cut_kinds import is_of_keras, kind_of
from tfdist.keras_repairs.sharding.optimizer_policy import (
    Granularity,
    OptimizerPolicy,
    is_container,
    policy_while_built,
    refusal,
    set_policy,
)
from tfdist.keras_repairs.sharding.shards import FlatShard, Shard, shard_of
from tfdist.runtime.local_variables import local_variables
from tfdist.runtime.offload.offloading import Offloading, on_host
from tfdist.runtime.strategy_settings import settings_of, shares_of
from tfdist.sharding import cut as cuts
from tfdist.sharding.cut import Cut


@dataclass(frozen=True)
class VariablePart:
    """This worker's part of a variable of the model.

    Attributes:
        whole: The variable, which every worker holds, or its part of it.
        cut: How the workers share it.
        worker: This one.
        variable: Has the values of the part while a step updates it, under the name of the whole; a Keras variable.
            Where the variable is cut in the same way, it has them always: it is what stores them.
        storage: What this worker stores of a variable that is cut itself; None for one that is whole.
    """

    whole: Any
    cut: Cut
    worker: int
    variable: keras.Variable
    storage: FlatShard | None = None

    def slot(self, variable: Any, shape: tuple[int, ...] | None = None) -> Shard:
        """See `VariablePolicy`; state of another shape is with the worker that has the variable."""
        if shape is None:
            return FlatShard(variable, self.cut, self.worker)
        owner = next(worker for worker in range(self.cut.workers) if self.cut.part_size(worker))
        return FlatShard(variable, cuts.whole(shape, owner, self.cut.workers), self.worker)

    @property
    def is_stored(self) -> bool:
        """Whether the part is what this worker stores of the variable."""
        return self.storage is not None and self.storage.cut == self.cut

    @property
    def is_shared(self) -> bool:
        """Whether several workers share it; otherwise this worker offloads all of it."""
        return self.cut.workers > 1

    @property
    def is_held(self) -> bool:
        """Whether this worker has any of it."""
        return self.cut.part_size(self.worker) > 0


def holds(optimizer: Any, variable: Any) -> bool:
    """Whether an optimizer has anything of a variable, or of a part's variable, to update on this worker."""
    policy = policy_while_built(optimizer)
    part = None if policy is None or policy.granularity == "elements" else policy.of(variable)
    return part is None or part.is_held


def fitting(optimizer: Any, variable: Any, value: Any) -> Any:
    """What an optimizer assigns to a variable of its state while it is built: of a full value this worker's shard."""
    policy = policy_while_built(optimizer)
    shard = None if policy is None else policy.shard_of(variable)
    return value if shard is None or tuple(value.shape) != shard.full_shape else shard.of(value)


def begin(optimizer: Any, variables: Sequence[Any]) -> None:
    """Decides how an optimizer is cut that is about to make its state for these variables of a model.

    Raises:
        UnsupportedError: It cannot be.
    """
    strategy = optimizer._distribution_strategy
    sharding = settings_of(strategy).shard
    tables = [variable for variable in variables if isinstance(variable, TableVariable)]
    others = [variable for variable in variables if not isinstance(variable, TableVariable)]
    offload = settings_of(strategy).offload
    is_shared = all(map(_is_of_all_workers, others))
    if is_container(optimizer) or not (sharding or tables or offload) or not (is_shared or _has_all(offload, strategy)):
        return
    kind = kind_of(optimizer)
    if offload is not None and tables and sharding is None:
        raise refusal(optimizer, "--offload optimizer and sharded embeddings expect --shard zero1, zero2 or zero3, too")
    if tables and kind != "elements":
        raise refusal(optimizer, f"it may need the whole table of the embedding {tables[0].owner!r} to update a row")
    workers, worker = shares_of(strategy)
    if offload is not None and sharding is None:
        workers, worker = 1, 0  # Each worker has all parts there are.
    made = OptimizerPolicy(optimizer, kind, workers, is_known=is_of_keras(optimizer))
    with tf.init_scope(), local_variables(), on_host(offload):
        parts = [VariablePart(each, each.cut, each.worker, part_view(each), each.shard) for each in tables]
        if sharding is not None or offload is not None:
            shapes = [tuple(variable.shape) for variable in others]
            for variable, cut in zip(others, _cuts(kind, shapes, made.workers), strict=True):
                own = _variable_for(variable, cut, worker)
                parts.append(VariablePart(variable, cut, worker, own, _stored(variable)))
    for part in parts:
        made.add(part)
    set_policy(optimizer, made)


def _has_all(offload: Offloading | None, strategy: tf.distribute.Strategy) -> bool:
    """Whether a run of one replica offloads, whose variables are no strategy's."""
    return offload is not None and strategy.num_replicas_in_sync == 1


def _stored(variable: Any) -> FlatShard | None:
    found = shard_of(variable)
    assert found is None or isinstance(found, FlatShard), "weights are cut into ranges of their elements"
    return found


def _cuts(kind: Granularity, shapes: Sequence[tuple[int, ...]], workers: int) -> list[Cut]:
    if kind == "elements" and workers > 1:
        return [cuts.evenly(shape, workers) for shape in shapes]
    sizes = [tf.TensorShape(shape).num_elements() for shape in shapes]
    return [cuts.whole(shape, owner, workers) for shape, owner in zip(shapes, cuts.owners(sizes, workers), strict=True)]


def _is_of_all_workers(variable: Any) -> bool:
    """Whether a variable is one that the strategy keeps the same on all workers."""
    if shard_of(variable) is not None:
        return True
    return isinstance(getattr(variable, "value", variable), tf.distribute.DistributedValues)


def _variable_for(variable: Any, cut: Cut, worker: int) -> keras.Variable:
    """A variable for a part. It has no memory between steps, but where it stores what the worker has of the whole."""
    shape = cut.part_shape(worker)
    stored = variable._value if isinstance(variable, keras.Variable) else variable
    part = keras.Variable(
        "zeros", shape=(0,) * len(shape), dtype=stored.dtype.name, trainable=True, name=variable.name.split("/")[-1]
    )
    part._path = getattr(variable, "path", variable.name)
    part._shape = shape
    found = _stored(variable)
    if found is not None and found.cut == cut:
        part._value = stored
        return part
    part._value = tf.Variable(tf.zeros([0] * len(shape), stored.dtype), trainable=True, shape=[None] * len(shape))
    return part
