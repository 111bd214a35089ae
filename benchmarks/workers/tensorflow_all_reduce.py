"""The sum of a gradient over the workers under `tfdist train`, alone: `... tensorflow_all_reduce SPEC`.

In a function, as in a training step. The chief speaks for the job, with the slowest worker's medians.
"""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

import tfdist
from benchmarks.fit import pin
from benchmarks.workers.all_reduce_spec import AllReduceSpec, run_rounds, timed
from tfdist.runtime.collectives.calls import Call
from tfdist.runtime.collectives.strategy_communicator import communicator_of
from tfdist.runtime.transport.replica_sums import compression, sum_over_replicas


def main() -> None:
    """Sums as the specification says."""
    spec = AllReduceSpec.parse(sys.argv[1])
    pin(list(spec.cores))
    strategy = tf.distribute.get_strategy()

    @tf.function
    def reduce(value: tf.Tensor) -> tf.Tensor:
        return strategy.run(lambda: sum_over_replicas([value], compression())[0])

    def time_sums(sizes: dict[str, int]) -> dict[str, float]:
        medians = {}
        for size, times in sizes.items():
            ones = tf.constant(np.ones(int(size) // 4, np.float32))
            medians[size] = timed(lambda ones=ones: ones, reduce, times, spec.workers, is_all)
        slowest = communicator_of(strategy).run(Call("all_reduce", "max"), medians)
        return {size: float(seconds) for size, seconds in slowest.items()}

    run_rounds(spec, tfdist.is_chief(), time_sums)


def is_all(total: tf.Tensor, number: float) -> bool:
    """Whether all elements are a number."""
    return bool(tf.reduce_all(total == number))


if __name__ == "__main__":
    main()
