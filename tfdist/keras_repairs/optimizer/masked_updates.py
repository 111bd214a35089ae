"""Updates of variables of which only a part exists: those of a pruned model.

What a mask leaves out is as if it were not there. Its gradient is zero before anything is done to it, so that norms by
which gradients are clipped are those of the rest (Zhu and Gupta, 2017: gradients flow through the masks); what
optimizers keep of it is zero; and it is zero after each update, whatever the optimizer makes of the rest. The masks of
variables lie beside them: neither the model nor its optimizer holds them, or saves them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.model_optimizers import optimizers_of
from tfdist.keras_repairs.base.replica_copies import copies, of_this_replica, own_copy, own_of
from tfdist.keras_repairs.optimizer.gradient_accumulation import inner_of
from tfdist.runtime.workers import local_variables

_UNDO: AttachedValue[Callable[[], None]] = AttachedValue("undo_of_masked_updates")


@dataclass(frozen=True)
class MaskedVariable:
    """A variable with its mask.

    Attributes:
        variable: A trainable variable of a model.
        masks: The mask on each of this worker's replicas, a plain boolean variable of its shape on the same device:
            True where the variable is there. One of the strategy's would begin with a broadcast.
    """

    variable: keras.Variable
    masks: tuple[tf.Variable, ...]

    @classmethod
    def of(cls, variable: keras.Variable) -> Self:
        """A variable with a mask that leaves nothing out yet."""
        masks = []
        for copy in copies(variable):
            with tf.init_scope(), tf.device(copy.device), local_variables():
                masks.append(tf.Variable(tf.ones(copy.shape, tf.bool), trainable=False))
        return cls(variable, tuple(masks))

    def read(self) -> NDArray[np.bool_]:
        """The mask."""
        values: NDArray[np.bool_] = self.masks[0].numpy()
        return values

    def write(self, values: NDArray[np.bool_]) -> None:
        """Gives every replica another mask."""
        for mask in self.masks:
            mask.assign(values)

    def masked(self, value: Any) -> Any:
        """A value of the variable's shape, or its gradient, with zeros where the mask is False; in any context.

        Zeros, too, where the value is not a number, which it would stay in a product with 0.
        """
        mask = own_of(self.masks)
        if isinstance(value, tf.IndexedSlices):
            rows = tf.gather(mask, value.indices)
            values = tf.where(rows, value.values, tf.zeros_like(value.values))
            return tf.IndexedSlices(values, value.indices, value.dense_shape)
        tensor = tf.convert_to_tensor(value)
        return tf.where(mask, tensor, tf.zeros_like(tensor))


def mask_updates(model: keras.Model, masked: Sequence[MaskedVariable]) -> None:
    """From now on, steps that are traced for `model` update what the masks leave in alone; before them, trace anew.

    Constraints are those of the variables' own with the mask around them, and each optimizer masks gradients and
    averages. `unmask_updates` takes both away.
    """
    unmask_updates(model)
    constraints = [(each.variable, each.variable.constraint) for each in masked]
    by_variable = {id(each.variable): each for each in masked}
    for each, (_, constraint) in zip(masked, constraints, strict=True):
        each.variable.constraint = _MaskedConstraint(each, constraint)
    optimizers = list(optimizers_of(model))
    for optimizer in optimizers:
        object.__setattr__(optimizer, "apply", _masked_apply(optimizer, by_variable))

    def undo() -> None:
        for variable, constraint in constraints:
            variable.constraint = constraint
        for optimizer in optimizers:
            vars(optimizer).pop("apply", None)

    _UNDO.set(model, undo)


def unmask_updates(model: keras.Model) -> None:
    """Takes the masks away from the updates of a model; the values of its variables stay."""
    undo = _UNDO.get(model)
    if undo is not None:
        undo()
        _UNDO.set(model, None)


def apply_masks(model: keras.Model, masked: Iterable[MaskedVariable]) -> None:
    """Zeros what the masks leave out, in the variables and in all that optimizers keep of them; outside of replicas.

    What is left of an old momentum would go on to move a weight, and to count in the norms of optimizers.
    """
    optimizers = [optimizer for optimizer in optimizers_of(model) if optimizer.built]
    for each in masked:
        kept = (slot for optimizer in optimizers for slot in slots_of(optimizer, each.variable))
        for variable in (each.variable, *kept):
            for copy, mask in zip(copies(variable), each.masks, strict=True):
                copy.assign(tf.where(mask, copy, tf.zeros_like(copy)))


def slots_of(optimizer: Any, variable: keras.Variable) -> Iterator[keras.Variable]:
    """The variables of the shape of `variable` that a built optimizer keeps for it: momenta, averages, accumulators."""
    optimizer = inner_of(optimizer)
    trained = optimizer._trainable_variables
    place = next((number for number, each in enumerate(trained) if each is variable), None)
    if place is None:
        return
    for values in vars(optimizer).values():
        if not isinstance(values, list | tuple) or len(values) != len(trained):
            continue
        slot = values[place]
        if isinstance(slot, keras.Variable) and slot is not variable and slot.shape == variable.shape:
            yield slot


class _MaskedConstraint(keras.constraints.Constraint):
    """The mask, around the constraint that a variable has of its own."""

    def __init__(self, masked: MaskedVariable, inner: Callable[[Any], Any] | None) -> None:
        self._masked = masked
        self._inner = inner

    def __call__(self, w: Any) -> Any:
        value = self._masked.masked(w)
        # Of the rest alone: the norm of a column is that of what is there.
        return value if self._inner is None else self._masked.masked(self._inner(value))


def _masked_apply(optimizer: Any, by_variable: dict[int, MaskedVariable]) -> Callable[..., None]:
    """Returns what stands in for an optimizer's `apply`, which Keras and hand-written loops call in each step."""

    def apply(grads: Sequence[Any], trainable_variables: Any = None) -> None:
        variables = None if trainable_variables is None else list(trainable_variables)
        of = optimizer._trainable_variables if variables is None else variables
        if len(grads) != len(of):
            type(optimizer).apply(optimizer, grads, variables)  # which says what is wrong
            return
        masked = [_masked_gradient(gradient, by_variable.get(id(v))) for gradient, v in zip(grads, of, strict=True)]
        type(optimizer).apply(optimizer, masked, variables)
        _mask_averages(optimizer, by_variable)

    return apply


def _masked_gradient(gradient: Any, masked: MaskedVariable | None) -> Any:
    return gradient if gradient is None or masked is None else masked.masked(gradient)


def _mask_averages(optimizer: Any, by_variable: dict[int, MaskedVariable]) -> None:
    """Zeros averages of weights, which are taken of what the update made of them, before the constraints."""
    if optimizer is not inner_of(optimizer) or not optimizer.use_ema:
        return
    in_replica = tf.distribute.get_replica_context() is not None
    for variable, average in zip(
        optimizer._trainable_variables, optimizer._model_variables_moving_average, strict=True
    ):
        masked = by_variable.get(id(variable))
        if masked is None or average is None:
            continue
        if in_replica:
            with of_this_replica():
                average.assign(masked.masked(own_copy(average)))
        else:
            average.assign(masked.masked(average))
