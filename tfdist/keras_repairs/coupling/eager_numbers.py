"""Gives code that is traced the numbers that it takes out of tensors in Python, as it gets them where it runs eagerly.

So a trace comes as far as the code does, past `float(self.optimizer.learning_rate)` to where the batch decides.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute.values import DistributedVariable
from tensorflow.python.framework.ops import SymbolicTensor
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

_MISSING = object()


@contextlib.contextmanager
def numbers_given(check: Callable[[Any], None]) -> Iterator[None]:
    """Symbols that the code inside traces give their numbers, where no batch makes them.

    Args:
        check: Called with each symbol whose number is taken; raises where that is not to be.
    """

    def number(symbol: Any) -> Any:
        check(symbol)
        return _value(symbol).numpy()

    def array(symbol: Any, dtype: Any = None, **_: Any) -> np.ndarray:
        return np.asarray(number(symbol), dtype)

    def of_variable(variable: Any) -> Any:
        read = variable.read_value()
        return read.numpy() if tf.executing_eagerly() else number(read)

    of_symbols: dict[str, Callable[..., Any]] = {
        **{f"__{kind.__name__}__": _through(kind, number) for kind in (bool, int, float, complex)},
        **{"__index__": _through(int, number), "__array__": array, "numpy": number},
        # What is printed decides nothing.
        "__format__": lambda symbol, _: str(symbol),
    }
    with contextlib.ExitStack() as replaced:
        for name, method in of_symbols.items():
            replaced.enter_context(_replaced(SymbolicTensor, name, method))
        for kind in (BaseResourceVariable, DistributedVariable):
            replaced.enter_context(_replaced(kind, "numpy", of_variable))
        yield


def _through(kind: Callable[[Any], Any], number: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda symbol: kind(number(symbol))


@contextlib.contextmanager
def _replaced(owner: type, name: str, method: Callable[..., Any]) -> Iterator[None]:
    before = vars(owner).get(name, _MISSING)
    setattr(owner, name, method)
    try:
        yield
    finally:
        if before is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


_ROWS = 4
"""The rows of ones that stand in for a batch."""


def _value(symbol: Any) -> Any:
    """The value of what is traced, computed eagerly from the variables and values that it follows from.

    Ones stand in for a batch. Only code that is looked at by itself takes numbers of it here, and it may take any side.
    """
    if not hasattr(symbol, "graph"):
        return symbol
    operations = _operations_behind(symbol.op)
    outer = {id(inner): value for value, inner in symbol.graph.captures}
    inputs = [operation.outputs[0] for operation in operations.values() if operation.type == "Placeholder"]
    definition = symbol.graph.as_graph_def()
    needed = [node for node in definition.node if node.name in operations]
    del definition.node[:]
    definition.node.extend(needed)
    with tf.init_scope():
        values = [_value(outer[id(given)]) if id(given) in outer else _ones(given) for given in inputs]

        @tf.function(autograph=False)
        def computed() -> Any:
            fed = {given.op.name: tf.identity(value) for given, value in zip(inputs, values, strict=True)}
            return tf.graph_util.import_graph_def(definition, input_map=fed, return_elements=[symbol.name])[0]

        return computed()


def _operations_behind(operation: tf.Operation) -> dict[str, tf.Operation]:
    """An operation and all from which it follows, by name."""
    found = {operation.name: operation}
    waiting = [operation]
    while waiting:
        one = waiting.pop()
        for before in [*(given.op for given in one.inputs), *one.control_inputs]:
            if before.name not in found:
                found[before.name] = before
                waiting.append(before)
    return found


def _ones(given: Any) -> Any:
    return tf.ones([_ROWS if size is None else size for size in given.shape.as_list()], given.dtype)
