"""A program that measures how fast the kernels of this process compute, for `tfdist doctor`.

`TF_ENABLE_ONEDNN_OPTS=1 python -m tfdist.runtime.kernel_speed SECONDS` prints one JSON object a line: first
`{"kernels": "onednn"}`, once it is ready, and then for each line that it reads the GFLOP/s of each operation on one
core, `{"speeds": {"Dense forward": 61.2, ...}}`. It ends with its standard input, and by itself after `SECONDS`.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

import tensorflow as tf

_ROWS = 256
_UNITS = 1024
_IMAGES, _SIDE, _CHANNELS, _FILTERS, _KERNEL = 8, 32, 32, 64, 3
_REPEATS = 5


def main() -> None:
    """Measures as often as it is asked to."""
    # Not a thread of Python's, so that it acts even while native code holds the interpreter.
    faulthandler.dump_traceback_later(float(sys.argv[1]), exit=True)
    from tfdist.runtime.devices import replica_kernels

    # What libraries print must not mix with the report.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    measured = operations()
    for _, run in measured.values():
        run()
    _tell(out, kernels=replica_kernels())
    while sys.stdin.readline():
        _tell(out, speeds={name: work / _seconds(run) / 1e9 for name, (work, run) in measured.items()})


def operations() -> dict[str, tuple[float, Callable[[], Any]]]:
    """Returns what is measured: name -> floating-point operations of a call, and the call.

    The three matrix products of a step of a Dense layer, of which two have a transposed side, and a convolution with
    both of its gradients.
    """
    inputs, outputs = tf.random.normal([_ROWS, _UNITS]), tf.random.normal([_ROWS, _UNITS])
    weights = tf.random.normal([_UNITS, _UNITS])
    images = tf.random.normal([_IMAGES, _SIDE, _SIDE, _CHANNELS])
    filters = tf.random.normal([_KERNEL, _KERNEL, _CHANNELS, _FILTERS])
    product = 2.0 * _ROWS * _UNITS * _UNITS
    convolution = 3 * 2.0 * _IMAGES * _SIDE**2 * _KERNEL**2 * _CHANNELS * _FILTERS
    # In graphs, as steps are: there TensorFlow exchanges operations for oneDNN's.
    forward = tf.function(lambda x, w: tf.linalg.matmul(x, w))
    of_weights = tf.function(lambda x, g: tf.linalg.matmul(x, g, transpose_a=True))
    of_inputs = tf.function(lambda g, w: tf.linalg.matmul(g, w, transpose_b=True))
    return {
        "Dense forward": (product, lambda: forward(inputs, weights)),
        "its weights' gradient": (product, lambda: of_weights(inputs, outputs)),
        "its inputs' gradient": (product, lambda: of_inputs(outputs, weights)),
        "convolution": (convolution, lambda: _convolution_step(images, filters)),
    }


@tf.function
def _convolution_step(images: tf.Tensor, filters: tf.Tensor) -> Any:
    """A convolution and its gradients."""
    with tf.GradientTape() as tape:
        tape.watch((images, filters))
        convolved = tf.nn.conv2d(images, filters, 1, "SAME")
    return convolved, tape.gradient(convolved, (images, filters))


def _seconds(run: Callable[[], Any]) -> float:
    """The time of a call that nothing disturbed."""
    times = []
    for _ in range(_REPEATS):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return min(times)


def _tell(out: TextIO, **message: Any) -> None:
    print(json.dumps(message), file=out)


if __name__ == "__main__":
    main()
