"""Repairs of functions decorated with `tf.function` that a step of the user's calls, or is.

TensorFlow traces such a function in a graph of its own, where the replicas cannot meet: no gradient could be reduced in
it, no row gathered. In a step, which is one graph as a whole, the Python function beneath is called instead, converted
by AutoGraph as it would be. The numbers are the same; what XLA was to compile in it is left to the model's compile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.autograph.core import ag_ctx, converter
from tensorflow.python.autograph.impl import api
from tensorflow.python.util import tf_decorator

from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import REPLICA_SCOPE, current_step, is_alone
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.runtime.transport.emulated_replicas import emulated_replica

Function = Callable[..., Any]

_NOT_USERS = ("tensorflow", "keras", "tfdist")


def call(original: Function) -> Function:
    """Repairs `Function.__call__` of `tf.function`: within a step of several replicas it is no graph of its own."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_of_replica() or not _is_of_user(self.python_function):
            with changing(REPLICA_SCOPE, is_compiled_function=True) if self._jit_compile else contextlib.nullcontext():
                return original(self, *args, **kwargs)
        if self._jit_compile:
            warn_once(
                f"{getattr(self.python_function, '__qualname__', 'a function')}, which is decorated with "
                "tf.function(jit_compile=True), is not compiled by itself: the replicas cannot meet in it. Compile the "
                "model with jit_compile=True."
            )
        if not self._autograph or tf.executing_eagerly():
            return self.python_function(*args, **kwargs)
        return _converted_call(self, args, kwargs)

    return repaired


def is_allowlisted(original: Function) -> Function:
    """Repairs AutoGraph's `is_allowlisted`: tfdist's own code needs no conversion, as TensorFlow's and Keras's."""

    def repaired(o: Any, *args: Any, **kwargs: Any) -> bool:
        module = getattr(o, "__module__", None) or type(o).__module__
        return module.startswith("tfdist.") or original(o, *args, **kwargs)

    return repaired


def _converted_call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls the Python function beneath as `tf.function` traces it, with conditions and loops of tensors."""
    features = function._experimental_autograph_options
    _, target = tf_decorator.unwrap(function.python_function)
    with ag_ctx.ControlStatusCtx(status=ag_ctx.Status.ENABLED, options=features):
        if not _is_of_user(target):
            # TensorFlow has traced this very method before, and has put what it made of it in its place.
            return function.python_function(*args, **kwargs)
        options = converter.ConversionOptions(recursive=True, optional_features=features, user_requested=True)
        return api.converted_call(target, args, kwargs, options=options)


def _is_of_replica() -> bool:
    """Returns whether the code that runs is a step's, or tried out, where replicas would wait for the lock of the
    function."""
    return current_step() is not None or is_alone() or emulated_replica() is not None


def _is_of_user(function: Any) -> bool:
    return (getattr(function, "__module__", None) or "").partition(".")[0] not in _NOT_USERS
