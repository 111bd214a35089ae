"""A hand-written TensorFlow loop, as TensorFlow's guides write it for several workers: `... tensorflow_loop SPEC`.

With `apart` the same loop under no strategy, on this worker's share of the batch: what the processor does where nothing
is communicated. With `in_step`, too, each waits for the others after every step. Each prints one line of JSON with its
steps a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.workers.loop_spec import WARM_STEPS, LoopSpec, Moments, say
from benchmarks.workers.step_meeting import StepMeeting


def main() -> None:
    """Trains as the specification says, and prints."""
    spec = LoopSpec.parse(sys.argv[1])
    moments = Moments()
    import tensorflow as tf

    from benchmarks import models
    from tfdist.runtime.devices import uses_onednn

    # One for the collectives: they must not wait for the thread that computes.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    moments.note("imported")
    together = spec.workers > 1 and not spec.apart
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if together else tf.distribute.get_strategy()
    moments.note("met")
    with strategy.scope():
        model, optimizer = models.network(spec.model), models.optimizer()
        optimizer.build(model.trainable_variables)
    step = _step(strategy, model, optimizer, spec)
    moments.note("built")
    step()
    moments.note("stepped")
    step()
    moments.note("again")
    for _ in range(WARM_STEPS - 2):
        step()
    wait = StepMeeting(spec) if spec.in_step and spec.workers > 1 else _go_on
    if spec.apart:
        spec.meet()
    begun = time.perf_counter()
    for _ in range(spec.steps):
        step()
        wait()
    rate = spec.steps / (time.perf_counter() - begun)
    say(steps_per_second=rate, parameters=model.count_params(), onednn=uses_onednn(), moments=moments.times)


def _go_on() -> None:
    """What workers do after a step that do not wait."""


def _step(strategy: Any, model: Any, optimizer: Any, spec: LoopSpec) -> Callable[[], None]:
    import keras
    import tensorflow as tf

    from benchmarks import models

    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
    variables = model.trainable_variables
    batches = models.batches(spec.model, spec.share if spec.apart else spec.batch)
    batch = spec.share if spec.apart else spec.batch
    if strategy.num_replicas_in_sync > 1:
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
        batches = strategy.experimental_distribute_dataset(batches.with_options(options))
    iterator = iter(batches)

    def replica_step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True)) / batch
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    @tf.function
    def step() -> None:
        strategy.run(replica_step, args=next(iterator))

    return step


if __name__ == "__main__":
    main()
