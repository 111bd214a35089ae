"""What this worker holds of the variables that an optimizer trains, and of its state beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.sharded_embeddings.table_variable import TableVariable, part_view
from tfdist.keras_repairs.sharded_optimizer.cut_kinds import CutKind, is_container, is_of_keras, kind_of, refusal
from tfdist.keras_repairs.sharded_parameters.cut_variable import is_cut_variable, storage_of
from tfdist.keras_repairs.sharded_parameters.part_storage import PartStorage
from tfdist.runtime.local_variables import local_variables
from tfdist.runtime.offload.offloading import Offloading, on_host
from tfdist.runtime.strategy_settings import settings_of, shares_of
from tfdist.runtime.transport.part_sums import cut_out
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
    storage: PartStorage | None = None

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


@dataclass
class Slot:
    """A variable of an optimizer's state, of which this worker holds a part.

    Attributes:
        variable: The part.
        cut: How the workers share the whole; None until it is known to which of the model's variables it belongs.
        shape: Of the whole.
        initializer: Makes its first value.
    """

    variable: keras.Variable
    cut: Cut | None
    shape: tuple[int, ...]
    initializer: Any = None


@dataclass
class OptimizerParts:
    """The parts of one optimizer.

    Attributes:
        kind: How it is cut. Variables without a part are whole on every worker, and so is their state.
        worker: This one.
        workers: How many share it.
        parts: By the key of the model's variable.
        keys: The key of a part's own variable -> that of the model's variable.
        slots: Its state, in the order in which it was made.
    """

    kind: CutKind
    worker: int
    workers: int
    parts: dict[Any, VariablePart] = field(default_factory=dict)
    keys: dict[Any, Any] = field(default_factory=dict)
    slots: list[Slot] = field(default_factory=list)


_PARTS: AttachedValue[OptimizerParts] = AttachedValue("optimizer_parts")


def parts_of(optimizer: Any) -> OptimizerParts | None:
    """The parts of an optimizer that is built; None where every worker holds all of it, or for one with others inside.

    Raises:
        UnsupportedError: It has made state that cannot be cut.
    """
    found = _PARTS.get(optimizer)
    if found is not None and any(slot.cut is None for slot in found.slots):
        _settle(optimizer, found)
    return found


def parts_while_built(optimizer: Any) -> OptimizerParts | None:
    """The parts of an optimizer that may still be making its state."""
    return _PARTS.get(optimizer)


def updating_optimizers(optimizer: Any) -> Iterator[Any]:
    """The optimizers inside of one that update variables; the one itself where there are none."""
    if not is_container(optimizer):
        yield optimizer
        return
    inner = getattr(optimizer, "inner_optimizer", None)
    for other in getattr(optimizer, "optimizers", ()) if inner is None else (inner,):
        yield from updating_optimizers(other)


def is_cut(optimizer: Any) -> bool:
    """Whether workers hold parts of a built optimizer, or of those inside of it."""
    return any(_PARTS.get(each) is not None for each in updating_optimizers(optimizer))


def part_of(optimizer: Any, variable: Any) -> VariablePart | None:
    """This worker's part of a variable of the model, which the optimizer, or one inside of it, trains.

    None where every worker has it whole.
    """
    for each in updating_optimizers(optimizer):
        found = _PARTS.get(each)
        part = None if found is None else found.parts.get(each._var_key(variable))
        if part is not None:
            return part
    return None


def updated(found: OptimizerParts, optimizer: Any, variable: Any) -> Any:
    """What an optimizer updates for a variable of the model: the variable of its part, or itself where it is whole."""
    part = found.parts.get(optimizer._var_key(variable))
    return variable if part is None else part.variable


def holds(optimizer: Any, variable: Any) -> bool:
    """Whether an optimizer has anything of a variable, or of a part's variable, to update on this worker."""
    found = _PARTS.get(optimizer)
    if found is None or found.kind == "elements":
        return True
    part = found.parts.get(optimizer._var_key(variable))
    return part is None or part.is_held


def fitting(optimizer: Any, variable: Any, value: Any) -> Any:
    """What an optimizer assigns to a variable of its state while it is built: of a whole value this worker's part."""
    found = _PARTS.get(optimizer)
    slots = () if found is None else found.slots
    slot = next((slot for slot in slots if slot.variable is variable), None)
    if found is None or slot is None or slot.cut is None or tuple(value.shape) != slot.shape:
        return value
    return cut_out(tf.convert_to_tensor(value), slot.cut, found.worker)


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
    made = OptimizerParts(kind, worker, workers)
    with tf.init_scope(), local_variables(), on_host(offload):
        parts = [_part_of_table(table, strategy) for table in tables]
        if sharding is not None or offload is not None:
            shapes = [tuple(variable.shape) for variable in others]
            for variable, cut in zip(others, _cuts(kind, shapes, made.workers), strict=True):
                storage = storage_of(variable) if is_cut_variable(variable) else None
                own = _variable_for(variable, cut, made.worker)
                parts.append(VariablePart(variable, cut, made.worker, own, storage))
    for part in parts:
        key = optimizer._var_key(part.whole)
        made.parts[key] = part
        made.keys[optimizer._var_key(part.variable)] = key
    _PARTS.set(optimizer, made)


def _has_all(offload: Offloading | None, strategy: tf.distribute.Strategy) -> bool:
    """Whether a run of one replica offloads, whose variables are no strategy's."""
    return offload is not None and strategy.num_replicas_in_sync == 1


def _part_of_table(table: TableVariable, strategy: tf.distribute.Strategy) -> VariablePart:
    storage = PartStorage(table.part, table.cut, table.worker, strategy)
    return VariablePart(table, table.cut, table.worker, part_view(table), storage)


def _cuts(kind: CutKind, shapes: Sequence[tuple[int, ...]], workers: int) -> list[Cut]:
    if kind == "elements" and workers > 1:
        return [cuts.evenly(shape, workers) for shape in shapes]
    sizes = [tf.TensorShape(shape).num_elements() for shape in shapes]
    return [cuts.whole(shape, owner, workers) for shape, owner in zip(shapes, cuts.owners(sizes, workers), strict=True)]


def _is_of_all_workers(variable: Any) -> bool:
    """Whether a variable is one that the strategy keeps the same on all workers."""
    if is_cut_variable(variable):
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
    if is_cut_variable(variable) and storage_of(variable).cut == cut:
        part._value = stored
        return part
    part._value = tf.Variable(tf.zeros([0] * len(shape), stored.dtype), trainable=True, shape=[None] * len(shape))
    return part


def _settle(optimizer: Any, found: OptimizerParts) -> None:
    """Finds out to which variables state belongs that was made without naming one: by its place in lists of the state.

    Raises:
        UnsupportedError: It belongs to none.
    """
    parts = list(found.parts.values())
    lists = [value for value in vars(optimizer).values() if isinstance(value, list) and len(value) == len(parts)]
    places = {id(entry): place for entries in lists for place, entry in enumerate(entries) if entry is not None}
    for slot in found.slots:
        if slot.cut is not None:
            continue
        place = places.get(id(slot.variable))
        if place is None:
            raise refusal(optimizer, f"its variable {slot.variable.path} belongs to no single variable of the model")
        owner = next(worker for worker in range(found.workers) if parts[place].cut.part_size(worker))
        slot.cut = cuts.whole(slot.shape, owner, found.workers)
        if owner == found.worker:
            offload = settings_of(optimizer._distribution_strategy).offload
            with tf.init_scope(), local_variables(), on_host(offload):
                slot.variable._shape = slot.shape
                slot.variable._initialize_with_initializer(slot.initializer)
                if offload is not None:
                    offload.keep(slot.variable)
    known = {id(slot.variable) for slot in found.slots} | {id(optimizer._iterations), id(optimizer._learning_rate)}
    if not is_of_keras(optimizer):
        _check_known(optimizer, (variable for variable in optimizer._variables if id(variable) not in known))


def _check_known(optimizer: Any, others: Iterable[Any]) -> None:
    for variable in others:
        raise refusal(optimizer, f"its variable {variable.path} belongs to no single variable of the model")
