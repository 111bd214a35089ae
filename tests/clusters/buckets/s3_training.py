"""A training whose data lies in a bucket, in a few files of records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tests.clusters.buckets.stores import RunningStore
from tests.helpers.resumable_model import CLASSES, FEATURES, SAMPLES, write_config

FILES = 3


def write_records(store: RunningStore, bucket: str) -> str:
    """Puts the samples into a bucket; returns the pattern of the files."""
    generator = np.random.default_rng(5)
    x = generator.normal(size=(SAMPLES, FEATURES)).astype(np.float32)
    y = x[:, :CLASSES].argmax(axis=1)
    client = store.client()
    for number in range(FILES):
        lines = b"".join(_framed(_example(x[row], int(y[row]))) for row in range(number, SAMPLES, FILES))
        client.put_object(Bucket=bucket, Key=f"data/train-{number}.tfrecord", Body=lines)
    return f"s3://{bucket}/data/train-*.tfrecord"


def config_with_data_in(pattern: str, folder: Path, **changes: Any) -> Path:
    """A config that trains on the records of a bucket."""
    features = {"x": {"dtype": "float32", "shape": [FEATURES]}, "y": {"dtype": "int64"}}
    train = {"format": "tfrecord", "files": pattern, "features": features, "label": "y", "shuffle": True}
    return write_config(folder, data={"batch_size": 8, "train": train}, **changes)


def _example(x: np.ndarray, y: int) -> bytes:
    features = {
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
        "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[y])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _framed(record: bytes) -> bytes:
    import google_crc32c

    def masked(data: bytes) -> bytes:
        value = int(google_crc32c.value(data))
        return ((((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")

    length = len(record).to_bytes(8, "little")
    return length + masked(length) + record + masked(record)
