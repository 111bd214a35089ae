"""Says where data of unknown size makes plain Keras's numbers other than tfdist's, and how to make them the same.

Plain Keras finds the end of such data inside of a step, of which TensorFlow then executes the part that needs no data:
the optimizer counts a step more at the end of each epoch, weights decay once more, and random states advance. tfdist
finds it before the step, on any number of replicas.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import keras

from tfdist.keras_repairs.base.model_optimizers import optimizers_of
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.keras_repairs.inputs.epoch_iterator import BatchIterator
from tfdist.keras_repairs.model_checks.model_facts import is_random

Function = Callable[..., Any]

_COUNT = "iterations"


def saying_unknown_size(function: Function, model: Any) -> Function:
    """The function that Keras calls with an iterator for training steps, with a warning where it matters."""

    def execute(iterator: Any) -> Any:
        if isinstance(iterator, BatchIterator) and iterator.plain_keras_overruns:
            iterator.plain_keras_overruns = False
            _warn(model)
        return function(iterator)

    return execute


def _warn(model: Any) -> None:
    affected = list(dict.fromkeys(affected_by_a_step_more(model)))
    if affected:
        warn_once(
            "The training data does not say how many batches it has (from_generator, filter, a Python generator). "
            "Plain Keras then counts one training step too many at the end of each epoch; tfdist counts the batches, "
            f"on one device as on many. So these differ from plain Keras's by a step an epoch: {', '.join(affected)}. "
            "To have the same numbers from both, say how many batches there are: dataset.apply(tf.data.experimental."
            "assert_cardinality(n)) after dataset.batch(...); with a Python generator, fit(..., steps_per_epoch=n)."
        )


def affected_by_a_step_more(model: Any) -> Iterator[str]:
    """Yields what of a model's training, in a few words each, a step without data changes; nothing for most."""
    for optimizer in optimizers_of(model):
        # A LossScaleOptimizer decides by the gradients whether a step counts, and a step without data has none.
        if not isinstance(optimizer, keras.optimizers.LossScaleOptimizer) and not _is_within_scaling(optimizer, model):
            yield from _affected_in(optimizer)
    if any(is_random(layer) for layer in model._flatten_layers()):
        yield "the numbers that random layers draw"


def _is_within_scaling(optimizer: Any, model: Any) -> bool:
    return any(getattr(outer, "inner_optimizer", None) is optimizer for outer in optimizers_of(model))


def _affected_in(optimizer: Any) -> Iterator[str]:
    if isinstance(optimizer._learning_rate, keras.optimizers.schedules.LearningRateSchedule):
        yield f"the place in the schedule of the learning rate ({type(optimizer._learning_rate).__name__})"
    if _counts_in_updates(type(optimizer)):
        yield f"the steps that {type(optimizer).__name__} counts in its updates"
    if optimizer.weight_decay:
        yield "the weight decay"
    if optimizer.gradient_accumulation_steps:
        yield "the steps at which accumulated gradients are applied"
    if optimizer.use_ema and optimizer.ema_overwrite_frequency:
        yield "the steps at which averages overwrite the weights"


def _counts_in_updates(kind: type) -> bool:
    """Returns whether the updates of an optimizer depend on `iterations`, as those with a correction of their bias
    do."""
    own = kind.__mro__[: kind.__mro__.index(keras.optimizers.Optimizer)]
    functions = [inspect.unwrap(value) for cls in own for value in vars(cls).values() if inspect.isfunction(value)]
    return any(_COUNT in function.__code__.co_names for function in functions)
