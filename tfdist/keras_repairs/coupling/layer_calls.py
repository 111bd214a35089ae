"""Repairs of the calls of layers and models: those that couple the rows of a batch get the rows of all replicas.

What a model does with rows between its layers is tried out where a user's class has a `call` of its own, and where a
functional model has operations of `keras.ops` between its layers, which are no layers.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common import global_state

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.loss_scope import Kind
from tfdist.keras_repairs.base.replica_step import TraceAgain, current_step, this_step
from tfdist.keras_repairs.base.warn_once import say_once, warn_once
from tfdist.keras_repairs.coupling import call_scope
from tfdist.keras_repairs.coupling.batch_branches import WHICH_BRANCH, looked_at_apart, takes_branches, without_branches
from tfdist.keras_repairs.coupling.declarations import summed_over_replicas
from tfdist.keras_repairs.coupling.global_batch import call_with_all_rows
from tfdist.keras_repairs.coupling.shown_of_layers import shown_of
from tfdist.keras_repairs.coupling.trials.call_trial import CallVerdict, try_out_layer, try_out_model
from tfdist.keras_repairs.coupling.trials.made_up_inputs import way_of_calling
from tfdist.keras_repairs.coupling.trials.recorded_layers import current_recording, is_exact_by_itself
from tfdist.runtime.strategy_settings import settings_of

Function = Callable[..., Any]

_OF_KERAS = (keras.layers.MixUp, keras.layers.CutMix, keras.layers.RandomElasticTransform)
"""Keras's layers that mix the samples of a batch while they train.

Of a batch whose size is not known while a step is traced, Keras 3.15 transforms the first image elastically, and puts
it in the place of all that it would transform.
"""


def call(original: Function) -> Function:
    """Repairs `Layer.__call__`: the user's layers are tried out, once for each way of calling them, and gathered."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        recording, step = current_recording(), current_step()
        if recording is not None and recording.layer is not self and self.built:
            couples = lambda: is_exact_by_itself(self) or bool(_verdict(self, original, args, kwargs).reason)  # noqa: E731
            if recording.takes(self, couples):
                return recording.call(self, functools.partial(original, self), args, kwargs)
            return original(self, *args, **kwargs)
        if recording is not None or step is None or step.trace.builds or not _may_couple(self):
            with looked_at_apart() if step is None and _may_couple(self) else contextlib.nullcontext():
                return original(self, *args, **kwargs)
        if not self.built:
            return _built_by_call(self, original, args, kwargs)
        verdict = _verdict(self, original, args, kwargs)
        if verdict.reason:
            return call_with_all_rows(functools.partial(original, self), args, kwargs)
        outputs = _by_own_rows(self, original, args, kwargs)
        mark_losses(self, verdict.losses)
        return outputs

    return repaired


_BRANCHES = CallVerdict(f"{WHICH_BRANCH} depends on the samples of the batch")


def _by_own_rows(layer: Any, original: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns what a layer returns for the rows of this replica.

    Raises:
        TraceAgain: It takes a branch by the values of the batch, as nobody has seen before.
    """

    def note() -> None:
        shown_of(layer).as_layer[_way(layer, args, kwargs)] = _BRANCHES

    return without_branches(lambda: original(layer, *args, **kwargs), note)


def _built_by_call(layer: Any, original: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns what a layer returns that is built by its call, in a step that was to find it built: it is tried out
    afterwards.

    Raises:
        TraceAgain: It has to be called with the rows of all replicas, on which all of them must agree.
        UnsupportedError: Likewise, in a step that runs eagerly.
    """
    outputs = _by_own_rows(layer, original, args, kwargs)
    verdict = _verdict(layer, original, args, kwargs)
    if verdict.reason and not tf.executing_eagerly():
        raise TraceAgain
    if verdict.reason:
        raise UnsupportedError(
            f"The layer {layer.name!r} ({type(layer).__qualname__}) is built by the first step, which runs eagerly, "
            f"and has to be called with the samples of all replicas: {verdict.reason}. Call the model once before fit, "
            "under `with strategy.scope():`, or leave out run_eagerly=True."
        )
    mark_losses(layer, verdict.losses)
    return outputs


def _may_couple(layer: Any) -> bool:
    """Returns whether it is not known of a layer that its rows are independent, or exact by another repair."""
    if isinstance(layer, _OF_KERAS):
        return True
    if isinstance(layer, keras.Model) or type(layer).__module__.startswith("tfdist."):
        return False
    if not type(layer).__module__.startswith("keras.src."):
        return True
    return isinstance(layer, keras.layers.Lambda) or 0 in keras.tree.flatten(getattr(layer, "axis", None))


def _verdict(layer: Any, original: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallVerdict:
    """Returns what is known of a layer that is called in this way, or found out now."""
    if not _may_couple(layer):
        return CallVerdict()
    if not settings_of(tf.distribute.get_strategy()).gather:
        warn_once(
            "gather: off. Layers see the samples of their replica alone; what such a layer takes by the others of the "
            "batch is not that of one replica."
        )
        return CallVerdict()
    if isinstance(layer, _OF_KERAS):
        # Two of them shuffle while they do not train, too, and throw it away.
        return CallVerdict("it mixes the samples of a batch")
    verdict = _verdict_of_trial(layer, original, args, kwargs)
    if verdict.reason:
        say_once(
            f"the layer {layer.name!r} ({type(layer).__qualname__}) is called with the samples of all replicas, "
            f"gathered in each step: {verdict.reason}. Say so with tfdist.gathered(layer), or around the part of its "
            "call that needs them with tfdist.gathered(function)(tensors)."
        )
    return verdict


def _verdict_of_trial(layer: Any, original: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallVerdict:
    verdicts = shown_of(layer).as_layer
    way = _way(layer, args, kwargs)
    if way not in verdicts:
        run = functools.partial(original, layer)
        verdicts[way] = _with_branches(try_out_layer(layer, run, args, kwargs), run, args, kwargs)
    return verdicts[way]


def _with_branches(verdict: CallVerdict, run: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallVerdict:
    """The verdict of a trial, and of branches where no trace of the step is going to find them."""
    return _BRANCHES if not verdict.reason and takes_branches(run, args, kwargs) else verdict


def _way(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return way_of_calling(layer, args, kwargs, trains=is_for_training(kwargs))


def is_for_training(kwargs: dict[str, Any]) -> bool:
    """Returns whether a layer is called for training: by its argument, or by that of the layer around it."""
    given = kwargs.get("training")
    if given is None:
        given = getattr(global_state.get_global_attribute("current_call_ctx"), "training", None)
    return bool(given)


def mark_losses(layer: Any, kinds: tuple[Kind, ...]) -> None:
    """Says of the terms that a layer has just added what its trial has shown of them."""
    if not kinds:
        return
    terms = this_step().noted.added_losses.get(id(layer), [])
    for place, kind in enumerate(kinds, start=len(terms) - len(kinds)):
        if kind is not Kind.ROWS:
            total = keras.ops.sum(terms[place])
            terms[place] = call_scope.marked_as_mean(summed_over_replicas(total) if kind is Kind.SUM else total)


def call_model(original: Function) -> Function:
    """Repairs `Layer.__call__` of models: those that couple rows are called with the rows of all replicas."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        step = current_step()
        is_shared = isinstance(self, keras.Model) and step is not None and not step.trace.builds
        if not is_shared or not self.built or not _model_may_couple(self):
            with looked_at_apart() if step is None and _model_may_couple(self) else contextlib.nullcontext():
                return original(self, *args, **kwargs)
        if not settings_of(tf.distribute.get_strategy()).gather:
            warn_once(
                f"gather: off. The model {self.name!r} is not tried out: what its call takes by the other samples of "
                "the batch is not that of one replica."
            )
            return original(self, *args, **kwargs)
        run = functools.partial(original, self)
        verdict = _model_verdict(self, run, args, kwargs)
        if verdict.reason:
            return call_with_all_rows(run, args, kwargs)

        def note() -> None:
            shown_of(self).as_model[_way(self, args, kwargs)] = _BRANCHES
            _say(self, _BRANCHES)

        outputs = without_branches(lambda: run(*args, **kwargs), note)
        mark_losses(self, verdict.losses)
        return outputs

    return repaired


def _model_may_couple(model: keras.Model) -> bool:
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


def _model_verdict(model: keras.Model, run: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallVerdict:
    verdicts = shown_of(model).as_model
    way = _way(model, args, kwargs)
    if way not in verdicts:
        verdicts[way] = _with_branches(try_out_model(model, run, args, kwargs), run, args, kwargs)
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
