"""All variables of a model and of its optimizers of which each worker holds a part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tfdist.keras_repairs.base.model_optimizers import optimizers_of
from tfdist.keras_repairs.sharded_embeddings.table_variable import tables_of
from tfdist.keras_repairs.sharded_optimizer.cut_kinds import is_container
from tfdist.keras_repairs.sharded_optimizer.optimizer_parts import OptimizerParts, parts_of
from tfdist.keras_repairs.sharded_parameters.cut_variable import storage_of
from tfdist.keras_repairs.sharded_parameters.whole_weights import cut_weights
from tfdist.sharding.cut import Cut


@dataclass(frozen=True)
class HeldPart:
    """What this worker holds of a variable.

    Attributes:
        variable: The Keras variable.
        stored: The `tf.Variable` with the part.
        cut: How the workers share the whole.
    """

    variable: Any
    stored: Any
    cut: Cut


def held_parts(model: Any) -> list[HeldPart]:
    """The parts of weights, of sharded embeddings, and of the state of optimizers: the same list on every worker.

    Args:
        model: Built and compiled, with its optimizer.
    """
    weights = [(variable, storage_of(variable)) for variable in cut_weights(model)]
    found = [HeldPart(variable, storage.variable, storage.cut) for variable, storage in weights]
    found += [HeldPart(table, table.part, table.cut) for table in tables_of(model)]
    for parts in cut_optimizers(model):
        for slot in parts.slots:
            assert slot.cut is not None, "parts_of has seen to it"
            found.append(HeldPart(slot.variable, slot.variable._value, slot.cut))
    return found


def cut_optimizers(model: Any) -> Iterator[OptimizerParts]:
    """The parts of each optimizer of a model that is cut."""
    for optimizer in optimizers_of(model):
        found = None if is_container(optimizer) or not optimizer.built else parts_of(optimizer)
        if found is not None:
            yield found
