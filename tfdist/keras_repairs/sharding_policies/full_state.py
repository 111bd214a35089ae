"""Full values of what workers have shards of, where a model is saved or looked at.

A saved optimizer is that of one device, whatever the workers hold: it is loaded by any number of them, in any mode.
Where the chief alone writes, one variable at a time is full: the other workers stand by, and for each variable that the
chief comes to read, all of them put it together, in whatever order its files ask for them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.sharding_policies.optimizer_policy import shards_of
from tfdist.keras_repairs.sharding_policies.shards import FullOnDemand, Shard, stored_shards
from tfdist.runtime.collectives.decisions import broadcast

_DONE = -1


def full_state(model: Any, *, is_wanted: bool = True) -> contextlib.AbstractContextManager[None]:
    """Inside, weights and optimizers' variables of `model` are full on workers that want to read.

    All workers enter it together, outside of functions. The state is put together in host memory.

    Args:
        model: One of which no worker has a shard is left as it is.
        is_wanted: Whether this worker reads it.
    """
    return _full(shards_of(model), is_wanted=is_wanted)


def full_weights(model: Any) -> contextlib.AbstractContextManager[None]:
    """Inside, weights of `model` are full on all workers; see `full_state`."""
    return _full(stored_shards(model), is_wanted=True)


@contextlib.contextmanager
def full_on_demand(model: Any) -> Iterator[None]:
    """Inside, the chief reads what workers have shards of in `model` in full; the others call `take_part` meanwhile.

    Args:
        model: One of which no worker has a shard is left as it is.
    """
    shards = shards_of(model)
    strategy = tf.distribute.get_strategy()

    def read(number: int) -> NDArray:
        broadcast(np.int64(number), strategy=strategy)
        return shards[number].full()

    with contextlib.ExitStack() as stack:
        if shards:
            stack.callback(broadcast, np.int64(_DONE), strategy=strategy)
        for number, shard in enumerate(shards):
            stack.enter_context(shard.showing(FullOnDemand(shard, functools.partial(read, number))))
        yield


def take_part(model: Any) -> None:
    """This worker's part in what the chief reads in `full_on_demand`, until it has done so."""
    shards = shards_of(model)
    strategy = tf.distribute.get_strategy()
    while shards:
        number = int(broadcast(np.int64(_DONE), strategy=strategy))
        if number == _DONE:
            return
        shards[number].full()


@contextlib.contextmanager
def _full(shards: Sequence[Shard], *, is_wanted: bool) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for shard in shards:
            full = shard.full()
            if is_wanted:
                with tf.device("CPU:0"):
                    stack.enter_context(shard.showing(tf.constant(full)))
        yield
