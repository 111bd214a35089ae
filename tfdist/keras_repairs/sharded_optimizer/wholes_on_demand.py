"""Wholes of what workers hold parts of, put together when the chief reads them, one at a time: while it saves.

The other workers stand by: for each variable that the chief comes to read, all of them put it together, in whatever
order its files ask for them. So no worker has more than one or two of them whole.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.sharded_optimizer.held_parts import HeldPart, held_parts
from tfdist.keras_repairs.sharded_parameters.cut_variable import is_cut_variable, set_whole
from tfdist.runtime.collectives.decisions import broadcast
from tfdist.runtime.collectives.whole_arrays import joined_array

_DONE = -1


class WholeOnDemand:
    """Stands for the value of a variable; what NumPy asks of it is the whole.

    Args:
        part: What this worker holds.
        read: Puts the whole together.
    """

    def __init__(self, part: HeldPart, read: Callable[[], NDArray]) -> None:
        self.shape = tf.TensorShape(part.cut.shape)
        self.dtype = part.stored.dtype
        self._read = read

    def numpy(self) -> NDArray:
        """The whole."""
        return self._read()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return np.asarray(self._read(), dtype=dtype)


@contextlib.contextmanager
def wholes_on_demand(model: Any) -> Iterator[None]:
    """Inside, the chief reads what workers hold parts of in `model` as wholes; the others call `take_part` meanwhile.

    Args:
        model: One of which no worker holds a part alone is left as it is.
    """
    parts = held_parts(model)
    strategy = tf.distribute.get_strategy()

    def read(number: int) -> NDArray:
        broadcast(np.int64(number), strategy=strategy)
        return _joined(parts[number], strategy)

    with contextlib.ExitStack() as stack:
        if parts:
            stack.callback(broadcast, np.int64(_DONE), strategy=strategy)
        for number, part in enumerate(parts):
            stack.enter_context(_standing_in(part, functools.partial(read, number)))
        yield


def take_part(model: Any) -> None:
    """This worker's part in what the chief reads in `wholes_on_demand`, until it has done so."""
    parts = held_parts(model)
    strategy = tf.distribute.get_strategy()
    while parts:
        number = int(broadcast(np.int64(_DONE), strategy=strategy))
        if number == _DONE:
            return
        _joined(parts[number], strategy)


@contextlib.contextmanager
def _standing_in(part: HeldPart, read: Callable[[], NDArray]) -> Iterator[None]:
    variable = part.variable
    if is_cut_variable(variable):
        set_whole(variable, functools.partial(_on_host, read))
        try:
            yield
        finally:
            set_whole(variable, None)
        return
    before = variable._value, variable._shape
    variable._value, variable._shape = WholeOnDemand(part, read), part.cut.shape
    try:
        yield
    finally:
        variable._value, variable._shape = before


def _on_host(read: Callable[[], NDArray]) -> tf.Tensor:
    with tf.device("CPU:0"):
        return tf.constant(read())


def _joined(part: HeldPart, strategy: tf.distribute.Strategy) -> NDArray:
    return joined_array(part.stored.numpy(), part.cut, strategy)
