"""Leaving an iterator early waits for the samples that are being parsed, and for no other."""

from __future__ import annotations

import threading
from pathlib import Path

import tensorflow as tf

import tfdist.data

RECORDS, BATCH = 400, 4


class Parse:
    """Parses the first batch at once; from then on every sample takes until `gate` is open.

    Attributes:
        count: Samples that were begun.
        slow: Set once a slow sample is being parsed.
    """

    def __init__(self) -> None:
        self.count = 0
        self.slow = threading.Event()
        self.gate = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, record: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.numpy_function(self._wait, [record], tf.string), [])

    def _wait(self, record: bytes) -> bytes:
        with self._lock:
            self.count += 1
        if int(record) >= BATCH:
            self.slow.set()
            self.gate.wait(60)
        return record


def test_a_slow_parse_holds_up_nobody_for_more_than_its_sample(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(RECORDS):
            writer.write(str(number).encode())
    parse = Parse()
    iterators = [iter(tfdist.data.tfrecords(str(path), parse, batch_size=BATCH))]
    next(iterators[0])
    assert parse.slow.wait(60)
    leaving = threading.Thread(target=iterators.clear, daemon=True)
    leaving.start()
    parse.gate.set()
    leaving.join(60)
    assert not leaving.is_alive()
    assert parse.count < RECORDS / 2, "what nobody asks for is not parsed"
