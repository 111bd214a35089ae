"""Reports how many MiB this worker's first GPU gives before it has no more, up to a number."""

from __future__ import annotations

import json
import sys

import tensorflow as tf

import tfdist

STEP = 64  # MiB


def main(out: str, most: str) -> None:
    tfdist.strategy()
    held = []
    with tf.device("GPU:0"):
        while STEP * len(held) < int(most):
            try:
                held.append(tf.ones([STEP << 18]))
            except tf.errors.ResourceExhaustedError:
                break
    with open(f"{out}.{tfdist.worker_index()}", "w") as file:
        json.dump({"mib": STEP * len(held)}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
