"""Timer of TFRecord reading in this process: `python -m benchmarks.record_reading READER FILES [--parse]`.

`tensorflow` reads TFRecord files in sequence, as `tf.data.TFRecordDataset` does; `tfdist` reads the same records in
random order, as `tfdist.data` does. Prints one line of JSON with the batches of 256 records a second.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 256
FILES = 4
RECORDS = 12_500
"""In each file."""

VALUES = 250
"""Floats in a record, which so has about 1 kB."""


def main() -> None:
    """Parses the command line, times and prints."""
    parser = argparse.ArgumentParser(description="Times reading TFRecord files in this process.")
    parser.add_argument("reader", choices=["tensorflow", "tfdist"])
    parser.add_argument("files", help="a pattern")
    parser.add_argument("--parse", action="store_true", help="parse the features, too")
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    batches = (in_sequence if options.reader == "tensorflow" else in_random_order)(options.files, options.parse)
    print(json.dumps({"steps_per_second": batches_per_second(batches, options.seconds)}), flush=True)


def write_files(folder: Path) -> str:
    """Writes 50 MB of records of 1 kB, each a `tf.train.Example`; returns the pattern of the files."""
    import tensorflow as tf

    generator = np.random.default_rng(0)
    for file in range(FILES):
        with tf.io.TFRecordWriter(str(folder / f"{file}.tfrecord")) as writer:
            for label in range(RECORDS):
                floats = tf.train.FloatList(value=generator.standard_normal(VALUES, np.float32))
                feature = {
                    "x": tf.train.Feature(float_list=floats),
                    "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    return str(folder / "*.tfrecord")


def batches_per_second(batches: Any, seconds: float) -> float:
    """Batches a second over as many epochs as it takes, at least one, after one that is not counted."""
    for _ in batches:
        pass
    count, begun = 0, time.perf_counter()
    while True:
        for _ in batches:
            count += 1
        if (passed := time.perf_counter() - begun) >= seconds:
            return count / passed


def _features() -> dict[str, Any]:
    import tensorflow as tf

    return {"x": tf.io.FixedLenFeature([VALUES], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}


def in_sequence(pattern: str, parse: bool) -> Any:
    """Batches as TensorFlow reads them."""
    import tensorflow as tf

    from tfdist.data.files.file_patterns import matching

    batches = tf.data.TFRecordDataset([str(path) for path in matching(pattern)]).batch(BATCH)
    if parse:
        batches = batches.map(lambda records: tf.io.parse_example(records, _features()), tf.data.AUTOTUNE)
    return batches.prefetch(tf.data.AUTOTUNE)


def in_random_order(pattern: str, parse: bool) -> Any:
    """Batches as tfdist reads them."""
    import tfdist.data
    from tfdist.data.pipeline import build

    if parse:
        return tfdist.data.tfrecords(pattern, features=_features(), label="y", batch_size=BATCH, shuffle=True, seed=1)
    return build(_Raw(pattern), batch_size=BATCH, shuffle=True, seed=1)


class _Raw:
    """The records as they are: what `tf.data.TFRecordDataset` gives."""

    def __init__(self, pattern: str) -> None:
        from tfdist.data.files.file_patterns import matching
        from tfdist.data.random_access.tfrecord_reader import TFRecordReader

        self._reader = TFRecordReader(matching(pattern))

    def __len__(self) -> int:
        return len(self._reader)

    def batches(self, numbers: Any) -> Any:
        from tfdist.data.formats.tfrecord_samples import read_groups
        from tfdist.data.ops.sample_batches import cut_filled

        groups = read_groups(numbers, self._reader.read, pace=self._reader.pace)
        return groups.batches.map(lambda count, rows: cut_filled(count, rows[0]))

    def name(self, number: int) -> str:
        return f"record {number}"


if __name__ == "__main__":
    main()
