"""A script that leaves an iterator half-read ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

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


@pytest.mark.parametrize("replicas", ["1", "2"])
@pytest.mark.parametrize("kind", ["text", "images"])
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
