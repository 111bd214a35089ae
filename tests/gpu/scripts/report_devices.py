"""Reports the strategy of this worker, its collectives and its GPUs."""

from __future__ import annotations

import json
import sys

import tensorflow as tf

import tfdist
from tfdist.training.session import current_session


def main(out: str) -> None:
    strategy = tfdist.strategy()
    choice = current_session.current().choice
    gpus = tf.config.get_visible_devices("GPU")
    # Known only where a device is not split.
    whole = [gpu for gpu in gpus if not tf.config.get_logical_device_configuration(gpu)]
    report = {
        "kind": choice.kind,
        "communication": choice.communication,
        "replicas": strategy.num_replicas_in_sync,
        "gpus": [gpu.name for gpu in gpus],
        "growth": [tf.config.experimental.get_memory_growth(gpu) for gpu in whole],
        "limits": [part.memory_limit for gpu in gpus for part in tf.config.get_logical_device_configuration(gpu) or ()],
        "on_gpu": "GPU" in tf.reduce_sum(tf.random.normal([64, 64])).device,
    }
    with open(f"{out}.{tfdist.worker_index()}", "w") as file:
        json.dump(report, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
