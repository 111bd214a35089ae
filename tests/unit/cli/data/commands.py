"""Runs `tfdist data`, and writes files for it."""

from __future__ import annotations

import struct
from pathlib import Path

from click.testing import CliRunner, Result

from tfdist.cli.main import main
from tfdist.data.random_access.crc32c import masked_crc32c


def run(arguments: str) -> Result:
    return CliRunner().invoke(main, ["data", *arguments.split()])


def write_records(name: str, count: int) -> Path:
    """A TFRecord file with `count` records of three bytes, 19 bytes each in all."""
    length, record = struct.pack("<Q", 3), b"abc"
    frame = length + struct.pack("<I", masked_crc32c(length)) + record + struct.pack("<I", masked_crc32c(record))
    Path(name).write_bytes(frame * count)
    return Path(name)
