"""Repair of the calls of models: what they do with rows between their layers is tried out, and gathered if it must be.

Where a user's class has a `call` of its own; and where a functional model has operations of `keras.ops` between its
layers, which are no layers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.keras_repairs.coupling.global_batch import call_with_all_rows
from tfdist.keras_repairs.coupling.layer_calls import is_for_training, mark_losses
from tfdist.keras_repairs.coupling.shown_of_layers import shown_of
from tfdist.keras_repairs.coupling.trials.call_verdict import CallVerdict
from tfdist.keras_repairs.coupling.trials.model_trial import try_out
from tfdist.keras_repairs.coupling.trials.ways_of_calling import way_of_calling
from tfdist.runtime.strategy_settings import settings_of

Function = Callable[..., Any]


def call(original: Function) -> Function:
    """Repairs `Layer.__call__` of models: those that couple rows are called with the rows of all replicas."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        step = current_step()
        is_shared = isinstance(self, keras.Model) and step is not None and not step.trace.builds
        if not is_shared or not self.built or not _may_couple(self):
            return original(self, *args, **kwargs)
        if not settings_of(tf.distribute.get_strategy()).gather:
            warn_once(
                f"gather: off. The model {self.name!r} is not tried out: what its call takes by the other samples of "
                "the batch is not that of one replica."
            )
            return original(self, *args, **kwargs)
        run = functools.partial(original, self)
        verdict = _verdict(self, run, args, kwargs)
        if verdict.reason:
            return call_with_all_rows(run, args, kwargs)
        outputs = run(*args, **kwargs)
        mark_losses(self, verdict.losses)
        return outputs

    return repaired


def _may_couple(model: keras.Model) -> bool:
    """Returns whether a model does anything between its layers that is not Keras's own, or moves the rows to another
    axis."""
    owner = next(kind for kind in type(model).__mro__ if "call" in vars(kind))
    if not owner.__module__.startswith(("keras.src.", "tfdist.")):
        return True
    operations = getattr(model, "operations", ())
    return any(not isinstance(operation, keras.Layer) or _moves_rows(operation) for operation in operations)


def _moves_rows(layer: keras.Layer) -> bool:
    """Returns whether a layer returns rows along another axis than the first, by which the next one may couple them."""
    outputs = [tensor for node in layer._inbound_nodes for tensor in node.output_tensors]
    return any(len(tensor.shape) > 1 and tensor.shape[0] is not None and None in tensor.shape for tensor in outputs)


def _verdict(model: keras.Model, run: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallVerdict:
    verdicts = shown_of(model).as_model
    way = way_of_calling(model, args, kwargs, trains=is_for_training(kwargs))
    if way not in verdicts:
        verdicts[way] = try_out(model, run, args, kwargs)
        _say(model, verdicts[way])
    return verdicts[way]


def _say(model: keras.Model, verdict: CallVerdict) -> None:
    if verdict.reason:
        warn_once(
            f"the model {model.name!r} ({type(model).__qualname__}) is called with the samples of all replicas, "
            f"gathered in each step, and every replica computes all of it: {verdict.reason}. Put the part of its call "
            "that takes a sample by the others into tfdist.gathered(function)(tensors), or into a layer: then that "
            "part alone is."
        )
