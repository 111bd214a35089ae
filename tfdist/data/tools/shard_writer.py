"""Writer of shards: the work of each process of `tfdist data shard`."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfdist.config.data_sections import SourceConfig
from tfdist.data.random_access.record_index import open_index
from tfdist.data.tools.process_pool import ReportProgress, TaskFunction
from tfdist.data.tools.shard_manifest import check_same_kind
from tfdist.data.tools.shard_samples import INPUT, LABEL, ShardableSamples, features_of, open_samples
from tfdist.errors import UsageError

READ_TOGETHER = 256
"""Samples that are read at once."""

UNFINISHED = ".unfinished"
"""The suffix of a shard's name while it is written."""


@dataclass(frozen=True)
class Shard:
    """A shard to write.

    Attributes:
        path: Its file.
        start: Its first sample.
        stop: The sample after its last.
    """

    path: Path
    start: int
    stop: int

    def __str__(self) -> str:
        return self.path.name


@dataclass(frozen=True)
class WrittenShard:
    """A shard that is written.

    Attributes:
        size: Its size in bytes.
        features: The `features` of a config that reads it.
    """

    size: int
    features: Mapping[str, Any]


def make_writer(section: SourceConfig) -> TaskFunction:
    """Opens the source, and returns a function from a `Shard`, which it writes, to a `WrittenShard`."""
    with _quiet():
        # Imported here: the process that hands out the work needs no TensorFlow, and starts at once.
        import tensorflow as tf

        tf.config.set_visible_devices([], "GPU")
        tf.constant(0)
        samples = open_samples(section)

    def write(shard: Shard, report: ReportProgress) -> WrittenShard:
        return _write(section, samples, shard, report)

    return write


def _write(section: SourceConfig, samples: ShardableSamples, shard: Shard, report: ReportProgress) -> WrittenShard:
    import tensorflow as tf

    unfinished = shard.path.with_name(shard.path.name + UNFINISHED)
    features: Mapping[str, Any] = {}
    try:
        with tf.io.TFRecordWriter(str(unfinished)) as writer:
            for start in range(shard.start, shard.stop, READ_TOGETHER):
                columns = samples.read(np.arange(start, min(start + READ_TOGETHER, shard.stop)))
                features = check_same_kind(shard.path.name, features_of(section, columns), features)
                for x, y in zip(*columns, strict=True):
                    writer.write(encode({INPUT: x, LABEL: y}))
                report(len(columns[0]))
        size = _settle(unfinished, shard.path)
        open_index(shard.path)
    except (OSError, tf.errors.OpError) as error:
        raise UsageError(
            f"{shard.path} could not be written: {getattr(error, 'strerror', None) or error}. Expected a directory "
            "that this user can write to, with room for the shards."
        ) from error
    return WrittenShard(size, features)


def _settle(unfinished: Path, path: Path) -> int:
    """Renames a file once it is on the disk; returns its size."""
    descriptor = os.open(unfinished, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        size = os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
    os.replace(unfinished, path)
    return size


def encode(sample: Mapping[str, Any]) -> bytes:
    """Returns a sample as a serialized `tf.train.Example`.

    Args:
        sample: Feature -> its value: float32, int64, bytes, or an array of these, which is written flat.
    """
    import tensorflow as tf

    example = tf.train.Example()
    for name, value in sample.items():
        _fill(example.features.feature[name], np.asarray(value).ravel())
    return example.SerializeToString(deterministic=True)


def _fill(feature: Any, values: NDArray) -> None:
    kind = {"f": feature.float_list, "i": feature.int64_list}.get(values.dtype.kind, feature.bytes_list)
    kind.value.extend(values.tolist())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides what TensorFlow prints on stderr while it starts, unless the start fails."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 2)
        try:
            yield
        except BaseException:
            printed.seek(0)
            os.write(kept, printed.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
