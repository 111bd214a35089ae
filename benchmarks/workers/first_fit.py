"""First steps of Keras `fit`, moment by moment, as the target of `tfdist train`: `... first_fit MODEL CORES [--xla]`.

The chief prints one line of JSON.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.workers.loop_spec import Moments, say

moments = Moments()
# `tfdist train` has imported TensorFlow, and the workers have found one another.
moments.note("met")


def main() -> None:
    """Parses the command line, trains two steps and prints."""
    import keras

    from benchmarks import models
    from benchmarks.fit import pin
    from benchmarks.model_sizes import BATCH

    parser = argparse.ArgumentParser(description="Times the first steps of fit.")
    parser.add_argument("model", choices=models.NAMES)
    parser.add_argument("cores")
    parser.add_argument("--xla", action="store_true")
    options = parser.parse_args()
    pin([int(core) for core in options.cores.split(",")])

    class Clock(keras.callbacks.Callback):
        """Notes when the first batch, and the second, is done."""

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            moments.note("again" if batch else "stepped")

    model = models.build(options.model, xla=options.xla)
    moments.note("built")
    batches = models.batches(options.model, BATCH)
    model.fit(batches, steps_per_epoch=2, epochs=1, verbose=0, shuffle=False, callbacks=[Clock()])
    say(moments=moments.times)


if __name__ == "__main__":
    main()
