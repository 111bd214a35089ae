"""Takes what a script says by `keras.distribution`, which does nothing on TensorFlow by itself, as tfdist means it."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.global_devices import devices_of_all
from tfdist.keras_repairs.base.warn_once import say_once
from tfdist.keras_repairs.sharded_parameters.model_parallel import check_model_parallel, model_parallel
from tfdist.runtime.workers import worker_count


def check_distribution(model: Any, adapter: Any = None) -> None:
    """Accepts the distribution that a script has set where it means what the run does, and logs that once.

    Args:
        model: Of several replicas.
        adapter: Keras's adapter of the data that is trained on; None where it is given batch by batch.

    Raises:
        UnsupportedError: It would shard weights in a way of its own, or keep the workers' data apart.
    """
    distribution, strategy = keras.distribution.distribution(), model.distribute_strategy
    if model_parallel() is not None:
        check_model_parallel(strategy)
    if distribution is None:
        return
    _check_data(distribution, strategy, adapter)
    if isinstance(distribution, keras.distribution.ModelParallel):
        return
    if type(distribution) is not keras.distribution.DataParallel:
        raise UnsupportedError(
            f"The script sets a keras.distribution.{type(distribution).__name__}, a distribution of its own, which "
            "does nothing on the TensorFlow backend: no weight would be sharded. Expected a "
            "keras.distribution.DataParallel, which is what `tfdist train` does anyway, or a ModelParallel; or leave "
            "keras.distribution out."
        )
    named = {str(name).lower() for name in distribution.device_mesh.devices.flat}
    others = sorted({*devices_of_all(strategy)} - named)
    beside = f" It does not name {', '.join(others)}, which train, too: --devices chooses others." if others else ""
    say_once(
        f"keras.distribution.DataParallel is what this run does: {strategy.num_replicas_in_sync} replicas, each with "
        f"its part of every batch.{beside}"
    )


def _check_data(distribution: Any, strategy: tf.distribute.Strategy, adapter: Any) -> None:
    """Refuses batches that come one by one, where a script keeps the workers' data apart: nobody knows of them."""
    if distribution.auto_shard_dataset or worker_count(strategy) == 1 or adapter is not None:
        return
    raise UnsupportedError(
        f"The script's keras.distribution.{type(distribution).__name__} has auto_shard_dataset=False, and a batch is "
        "given to a method that trains on one: it may be the whole global batch, or a worker's own rows. Expected fit, "
        "evaluate or predict, with a dataset of the worker's own rows or with arrays that are the same on all workers. "
        "Or leave the argument out, and give each worker the whole batch."
    )
