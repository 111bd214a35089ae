"""Collectives of tensors that lie on a GPU, as the target of `tfdist train --nproc 2`: `... gpu_collectives MEGABYTES`.

The chief prints one line of JSON: for each function and dtype whether its values are right and where its result lies,
and the milliseconds of a large float32 tensor.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import tfdist

_DTYPES = ("float32", "float16", "bfloat16", "float64", "int32", "int64")
_ROUNDS = 5
_MB = 1_000_000


def main(megabytes: str) -> None:
    """Exchanges, compares and prints."""
    values = [_checked(name, dtype) for name in _FUNCTIONS for dtype in _DTYPES]
    large = {name: _milliseconds(name, int(megabytes)) for name in ("all_reduce", "all_gather", "broadcast")}
    found = {"values": values, "megabytes": int(megabytes), "milliseconds": large}
    if tfdist.is_chief():
        print(json.dumps(found), flush=True)


def _all_reduce(value: tf.Tensor, every: list[np.ndarray]) -> tuple[tf.Tensor, np.ndarray]:
    return tfdist.all_reduce(value), np.sum(every, axis=0)


def _all_gather(value: tf.Tensor, every: list[np.ndarray]) -> tuple[tf.Tensor, np.ndarray]:
    return tfdist.all_gather(value), np.stack(every)


def _broadcast(value: tf.Tensor, every: list[np.ndarray]) -> tuple[tf.Tensor, np.ndarray]:
    return tfdist.broadcast(value), every[0]


def _reduce_scatter(value: tf.Tensor, every: list[np.ndarray]) -> tuple[tf.Tensor, np.ndarray]:
    return tfdist.reduce_scatter(value), np.split(np.sum(every, axis=0), len(every))[tfdist.worker_index()]


def _all_to_all(value: tf.Tensor, every: list[np.ndarray]) -> tuple[tf.Tensor, np.ndarray]:
    parts = [np.split(each, len(every))[tfdist.worker_index()] for each in every]
    return tfdist.all_to_all(value), np.concatenate(parts)


_FUNCTIONS: dict[str, Callable[[tf.Tensor, list[np.ndarray]], tuple[tf.Tensor, np.ndarray]]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "broadcast": _broadcast,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
}


def _checked(name: str, dtype: str) -> dict[str, Any]:
    """One small exchange. Its numbers are whole and small, so that no dtype rounds a sum of them."""
    every = [np.arange(8, dtype=np.float64) + 3 * index for index in range(tfdist.num_workers())]
    value = tf.cast(tf.constant(every[tfdist.worker_index()]), dtype)
    try:
        result, expected = _FUNCTIONS[name](_on_gpu(value), every)
    except Exception:  # The others are to be tried as well.
        return {"function": name, "dtype": dtype, "raised": traceback.format_exc().splitlines()[-1]}
    right = bool(np.array_equal(tf.cast(result, "float64").numpy(), expected))
    return {"function": name, "dtype": dtype, "right": right, "device": _device(result)}


def _milliseconds(name: str, megabytes: int) -> dict[str, Any]:
    """The median of some exchanges after one that is not counted, until a number of the result is read."""
    value = _on_gpu(tf.ones([megabytes * _MB // 4]))
    every = [np.zeros(2)] * tfdist.num_workers()
    took = []
    for _ in range(_ROUNDS + 1):
        begun = time.perf_counter()
        result, _ = _FUNCTIONS[name](value, every)
        tf.reshape(result, [-1])[-1].numpy()
        took.append(1000 * (time.perf_counter() - begun))
    return {"median": statistics.median(took[1:]), "low": min(took[1:]), "high": max(took[1:]), "on": _device(result)}


def _on_gpu(value: tf.Tensor) -> tf.Tensor:
    """The value on this worker's first GPU; on the CPU where there is none."""
    gpus = tf.config.list_logical_devices("GPU")
    with tf.device(gpus[0].name if gpus else "CPU:0"):
        return tf.identity(value)


def _device(value: tf.Tensor) -> str:
    return tf.DeviceSpec.from_string(value.device).device_type or ""


if __name__ == "__main__":
    main(sys.argv[1])
