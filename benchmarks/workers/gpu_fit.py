"""Keras `fit` on one model, its start and its rate: `... gpu_fit SPEC`, by itself or as the target of `tfdist train`.

The `fit` knows nothing of tfdist. With KERAS_BACKEND=jax it trains on all GPUs that are visible, by
`keras.distribution.DataParallel`. The chief prints one line of JSON.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np

from benchmarks import model_sizes, models
from benchmarks.gpu.gpu_models import GpuModel, TrainingSpec, gpu_model
from benchmarks.workers.loop_spec import WARM_STEPS, process_start, say

_MIB = 1 << 20


def main() -> None:
    """Trains as the specification says, and prints."""
    spec = TrainingSpec.parse(sys.argv[1])
    model_of = gpu_model(spec.model, spec.scale)
    on_jax = keras.backend.backend() == "jax"
    if on_jax:
        keras.distribution.set_distribution(keras.distribution.DataParallel())
    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy(model_of.precision)
    model = models.network_of(model_of.size)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    first, batches = _FirstStep(), _generated(model_of) if on_jax else _batches(model_of)
    model.fit(batches, steps_per_epoch=WARM_STEPS, epochs=1, verbose=0, shuffle=False, callbacks=[first])
    memory = _host_memory()
    # Without a callback that looks at batches: what is compiled anew for that is not timed.
    model.fit(batches, steps_per_epoch=model_of.steps, epochs=1, verbose=0, shuffle=False)
    rates = [_rate(model, batches, model_of.steps) for _ in range(spec.windows)]
    say(
        rates=rates,
        first_step=first.moment,
        process=process_start(),
        host_memory=memory,
        parameters=model.count_params(),
        jit_compile=bool(model.jit_compile),
        **({} if on_jax else _tensorflow_facts()),
    )


class _FirstStep(keras.callbacks.Callback):
    """When the first step was done, in seconds since 1970."""

    moment: float | None = None

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.moment = self.moment or time.time()


def _rate(model: keras.Model, batches: Any, steps: int) -> float:
    """Steps a second of a `fit` of one epoch, which ends when its loss is read from the device."""
    begun = time.perf_counter()
    model.fit(batches, steps_per_epoch=steps, epochs=1, verbose=0, shuffle=False)
    return steps / (time.perf_counter() - begun)


def _data(model_of: GpuModel) -> tuple[np.ndarray, np.ndarray]:
    return models.data_of(model_of.size, model_sizes.BATCHES * model_of.batch)


def _batches(model_of: GpuModel) -> Any:
    """Batches in the host's memory, without an end."""
    import tensorflow as tf

    samples = tf.data.Dataset.from_tensor_slices(_data(model_of))
    return samples.batch(model_of.batch, drop_remainder=True).cache().repeat().prefetch(2)


def _generated(model_of: GpuModel) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The same of NumPy's arrays: with JAX, TensorFlow stays away from the GPU."""
    x, y = _data(model_of)
    parts = [np.split(array, model_sizes.BATCHES) for array in (x, y)]
    return itertools.cycle(zip(*parts, strict=True))


def _host_memory() -> float:
    """MiB that this process, and the launcher that started it if there is one, have had at most."""
    from tfdist.launch.environment import Assignment

    processes = ["self"] if Assignment.from_environ() is None else ["self", str(os.getppid())]
    found = [re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{name}/status").read_text()) for name in processes]
    return sum(int(match[1]) * 1024 for match in found if match) / _MIB


def _tensorflow_facts() -> dict[str, Any]:
    import tensorflow as tf

    build = tf.sysconfig.get_build_info()
    details = [tf.config.experimental.get_device_details(gpu) for gpu in tf.config.list_physical_devices("GPU")]
    return {
        "replicas": tf.distribute.get_strategy().num_replicas_in_sync,
        "gpus": [detail.get("device_name", "") for detail in details],
        "cuda": build.get("cuda_version", ""),
        "cudnn": build.get("cudnn_version", ""),
    }


if __name__ == "__main__":
    main()
