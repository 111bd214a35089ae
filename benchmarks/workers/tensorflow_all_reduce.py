"""The sum of a gradient over the workers under `tfdist train`, alone: `... tensorflow_all_reduce SPEC`.

In a function, as in a training step. The chief prints one line of JSON, with the slowest worker's medians.
"""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

from benchmarks.fit import pin
from benchmarks.workers.all_reduce_spec import AllReduceSpec, timed
from benchmarks.workers.loop_spec import say
from tfdist.runtime.collectives.calls import Call
from tfdist.runtime.collectives.strategy_communicator import communicator_of
from tfdist.runtime.transport.replica_sums import sum_over_replicas


def main() -> None:
    """Sums as the specification says, and prints."""
    spec = AllReduceSpec.parse(sys.argv[1])
    pin(list(spec.cores))
    strategy = tf.distribute.get_strategy()
    medians = {}
    for size, times in spec.sizes.items():
        ones = tf.constant(np.ones(int(size) // 4, np.float32))

        @tf.function
        def reduce(value: tf.Tensor) -> tf.Tensor:
            return strategy.run(lambda: sum_over_replicas([value])[0])

        medians[size] = timed(lambda ones=ones: ones, reduce, times, spec.workers, is_all)
    slowest = communicator_of(strategy).run(Call("all_reduce", "max"), medians)
    say(seconds={size: float(seconds) for size, seconds in slowest.items()})


def is_all(total: tf.Tensor, number: float) -> bool:
    """Whether all elements are a number."""
    return bool(tf.reduce_all(total == number))


if __name__ == "__main__":
    main()
