"""Iterators that are left half-read: the script ends, and only samples that are being parsed are waited for."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import tfdist.data
from tests.helpers.marks import slow

RECORDS, BATCH = 400, 4

SCRIPT = """
import sys
import tensorflow as tf
import tfdist.data
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
folder, format, replicas = sys.argv[1], sys.argv[2], int(sys.argv[3])
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]) if replicas > 1 else None
if format == "text":
    batches = tfdist.data.text(folder + "/a.txt", batch_size=64, shuffle=True, strategy=strategy)
else:
    batches = tfdist.data.images(folder, (8, 8), batch_size=64, shuffle=True, strategy=strategy)
iterator = iter(batches)
next(iterator)
"""


@pytest.mark.parametrize(
    ("kind", "replicas"), [("text", "2"), slow("images", "1"), slow("text", "1"), slow("images", "2")]
)
def test_the_process_ends(tmp_path: Path, kind: str, replicas: str) -> None:
    if kind == "text":
        (tmp_path / "a.txt").write_text("1\tsome words of text\n" * 100_000)
    else:
        (tmp_path / "class").mkdir()
        image = tf.io.encode_png(np.random.default_rng(1).integers(0, 256, (32, 32, 3), np.uint8)).numpy()
        for number in range(1000):
            (tmp_path / "class" / f"{number}.png").write_bytes(image)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), kind, replicas]
    assert subprocess.run(command, timeout=150, check=False, capture_output=True).returncode == 0


class Parse:
    """Parses samples at once until the first batch is whole; from then on every sample takes until `gate` is open.

    No sooner: slow samples hold TensorFlow's threads, and the first batch would wait for one.

    Attributes:
        count: Samples that were begun.
        slow: Set once a slow sample is being parsed.
    """

    def __init__(self) -> None:
        self.count = 0
        self.slow = threading.Event()
        self.gate = threading.Event()
        self._left = set(range(BATCH))
        self._lock = threading.Lock()

    def __call__(self, record: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.numpy_function(self._wait, [record], tf.string), [])

    def _wait(self, record: bytes) -> bytes:
        with self._lock:
            self.count += 1
            is_slow = not self._left
            self._left.discard(int(record))
        if is_slow:
            self.slow.set()
            self.gate.wait(60)
        return record


def test_an_iterator_ends_without_waiting_for_more_than_the_parsed_samples(tmp_path: Path) -> None:
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
    assert parse.count < RECORDS / 2, "what is not requested is not parsed"
