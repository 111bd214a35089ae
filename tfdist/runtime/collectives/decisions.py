"""Collectives between workers: all call the same functions in the same order and get the same results.

They run outside of training steps, for decisions, small values and barriers. The process's watchdog bounds how long
each may take.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.object_exchange import ObjectExchange
from tfdist.runtime.transport.worker_sums import sum_over_workers
from tfdist.runtime.workers import worker_count, worker_rank
from tfdist.text import safe_repr

_REDUCTIONS: dict[str, Callable[..., Any]] = {"sum": np.sum, "max": np.max, "min": np.min, "mean": np.mean}


def all_gather(value: Any, strategy: tf.distribute.Strategy | None = None) -> np.ndarray:
    """Collects one array from every worker.

    Args:
        value: An array or number, of one shape and dtype on all workers.
        strategy: The strategy; TensorFlow's current one when None.

    Returns:
        An array of shape `(workers, *value.shape)` and the dtype of `value`, the same on every worker.

    Raises:
        UsageError: `value` is no array of numbers or texts, or it has another shape or dtype on another worker.
    """
    strategy = strategy or tf.distribute.get_strategy()
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise UsageError(
            "Workers exchange arrays of numbers or texts, of one shape and dtype on all of them. Received: a "
            f"{type(value).__name__}, which is not such an array. Give a number or an array on every worker, even "
            "where its value does not matter."
        )
    contents = _exchange(array.tobytes(), f"{array.dtype} of shape {array.shape}", strategy)
    return np.stack([np.frombuffer(content, array.dtype).reshape(array.shape) for content in contents])


def all_reduce(value: Any, op: str = "sum", strategy: tf.distribute.Strategy | None = None) -> np.ndarray:
    """Reduces one array over all workers, in the order of the workers.

    Args:
        value: An array or number, of one shape and dtype on all workers.
        op: `"sum"`, `"mean"`, `"max"` or `"min"`.
        strategy: The strategy; TensorFlow's current one when None.

    Returns:
        An array of the shape of `value`, the same on every worker.

    Raises:
        UsageError: `op` is none of the four; or see `all_gather`.
    """
    if op not in _REDUCTIONS:
        raise UsageError(f"all_reduce expects op to be one of {sorted(_REDUCTIONS)}. Received: op={safe_repr(op)}")
    return np.asarray(_REDUCTIONS[op](all_gather(value, strategy), axis=0))


def broadcast(value: Any, root: int = 0, strategy: tf.distribute.Strategy | None = None) -> np.ndarray:
    """The array of worker `root`, on every worker. All workers pass an array of one shape and dtype.

    Raises:
        UsageError: There is no worker `root`; or see `all_gather`.
    """
    rows = all_gather(value, strategy)
    if not 0 <= root < len(rows):
        raise UsageError(f"broadcast needs a root among the workers 0 to {len(rows) - 1}. Received: root={root}")
    return rows[root]


def gather_objects(value: Any, strategy: tf.distribute.Strategy | None = None) -> list[Any]:
    """Collects one JSON-serialisable object from every worker; their sizes may differ."""
    strategy = strategy or tf.distribute.get_strategy()
    return [json.loads(said) for said in _exchange(json.dumps(value).encode(), "objects", strategy)]


def barrier(strategy: tf.distribute.Strategy | None = None) -> None:
    """Returns when every worker has called it."""
    all_gather(0, strategy)


def _exchange(content: bytes, kind: str, strategy: tf.distribute.Strategy) -> list[bytes]:
    workers, meter = worker_count(strategy), settings_of(strategy).meter
    if workers == 1:
        return [content]
    add_up = functools.partial(sum_over_workers, strategy=strategy)
    with contextlib.nullcontext() if meter is None else meter.waiting():
        return ObjectExchange(worker_rank(strategy), workers, add_up)(content, kind)
