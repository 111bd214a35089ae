"""Program of the `decoding` benchmark: `fit` on JPEGs that an unedited `tf.data` script decodes.

Usage: `tfdist train -m benchmarks.workers.decoding_fit FOLDER [--steps N] [--each all|own]`. Prints one line of JSON on
the chief: the steps a second of an epoch after a first one, and the processor time of all workers for one of its steps.
With `--each` the workers decode as those of several hosts: all images of each batch, or those of their own rows.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

BATCH = 64
SIZE = 224


def main() -> None:
    """Parses the command line, trains and prints."""
    parser = argparse.ArgumentParser(description="Trains a small model on a folder of JPEGs.")
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--each", choices=["all", "own"])
    options = parser.parse_args()

    import keras
    import numpy as np
    import tensorflow as tf

    import tfdist
    from tfdist.runtime.strategy_settings import settings_of

    if options.each:
        settings_of(tf.distribute.get_strategy()).feed = None
    data = _images(options.folder)
    if options.each == "all":
        # Behind a map of batches nobody knows that rows are those of single samples.
        data = data.map(lambda *batch: batch)
    layers = keras.layers
    model = keras.Sequential(
        [layers.Input([SIZE, SIZE, 3]), layers.AveragePooling2D(32), layers.Flatten(), layers.Dense(4)]
    )
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(data, steps_per_epoch=2, verbose=0)
    begun, used = time.perf_counter(), time.process_time()
    model.fit(data, steps_per_epoch=options.steps, verbose=0)
    seconds, used = time.perf_counter() - begun, time.process_time() - used
    of_all = float(tfdist.all_reduce(np.float64(used)))
    if tfdist.worker_index() == 0:
        said = {"steps_per_second": options.steps / seconds, "processor_seconds_per_step": of_all / options.steps}
        print(json.dumps(said), flush=True)


def _images(folder: str) -> Any:
    import tensorflow as tf

    def decoded(path: Any) -> tuple[Any, Any]:
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        return tf.image.resize(image, (SIZE, SIZE)) / 255.0, tf.strings.length(path) % 4

    files = tf.data.Dataset.list_files(f"{folder}/*/*.jpg", shuffle=True, seed=1).repeat()
    return files.map(decoded, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH).prefetch(tf.data.AUTOTUNE)


if __name__ == "__main__":
    main()
