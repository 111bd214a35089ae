from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tfdist.data.random_access.crc32c import masked_crc32c

WriteTFRecord = Callable[[str, Iterable[bytes]], Path]


@pytest.fixture
def write_tfrecord(tmp_path: Path) -> WriteTFRecord:
    """Writes a TFRecord file into the test's folder without TensorFlow."""

    def write(name: str, records: Iterable[bytes]) -> Path:
        path = tmp_path / name
        with open(path, "wb") as file:
            for record in records:
                length = struct.pack("<Q", len(record))
                file.write(length + struct.pack("<I", masked_crc32c(length)))
                file.write(record + struct.pack("<I", masked_crc32c(record)))
        return path

    return write
