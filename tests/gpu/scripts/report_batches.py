"""Reports on which devices the replicas' batches lie before their step begins, and what they hold."""

from __future__ import annotations

import json
import sys

import tensorflow as tf

import tfdist
from tfdist.runtime.batches.replica_batches import per_replica


def main(out: str) -> None:
    strategy = tfdist.strategy()

    def batches(replicas: object) -> tf.data.Dataset:
        # Each number is the place of the replica that is to have it.
        return tf.data.Dataset.from_tensors([float(replica) for replica in replicas]).unbatch().batch(1).repeat(3)

    parts = [
        {"device": part.device, "values": part.numpy().tolist()}
        for batch in per_replica(batches, strategy)
        for part in strategy.experimental_local_results(batch)
    ]
    with open(f"{out}.{tfdist.worker_index()}", "w") as file:
        json.dump(parts, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
