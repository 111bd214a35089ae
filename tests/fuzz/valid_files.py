"""Files as tfdist and others write them, to be changed."""

from __future__ import annotations

import gzip
import io
import json
import os
import socket
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.helpers.ledger_lines import killed_once
from tests.helpers.made_checkpoints import run_with
from tfdist.data.random_access.crc32c import masked_crc32c
from tfdist.launch.agent.exit_diagnosis import from_signal
from tfdist.rundir import RunDir, State, WorkerState, ledger_lines
from tfdist.rundir.state_records import JobState

CONFIG = "checkpoint: {every_steps: 5, keep: 3, directory: null}\nfit: {epochs: 3}\nversions: {keras: 3.15.1}\n"


def run_of_everything(folder: Path) -> RunDir:
    """A run directory with every file that is read again."""
    run = run_with(folder, 10, 20)
    for index in (0, 1):
        host, process = socket.gethostname(), os.getpid()
        WorkerState(index, f"a:{index + 1}", host, process, 1, State.STEP, 2, 418, 5.5, 3, 5.5, 600.0, 9.5, 0.1).write(
            run.state_file(index), durable=False
        )
    JobState("running", 1, socket.gethostname(), os.getpid(), 6.5).write(run.job_file, durable=False)
    failure = from_signal(1, 9)
    failure.write(run.failure_file, durable=False)
    failure.write(run.attempt_failure_file(0), durable=False)
    failure.write_error(run.error_file(1, 0))
    for entry in killed_once():
        ledger_lines.append_entry(run.ledger_file, entry)
    run.config_file.write_text(CONFIG)
    run.done_file.write_text(json.dumps({"epochs": 3}))
    run.resumes_file.write_text(json.dumps({"total": 10}) + "\n")
    run.history_file.write_text(json.dumps({"loss": [1.0, 0.5]}))
    run.metrics_file.write_text(json.dumps({"epoch": 0, "time": 6.5, "loss": 1.0, "val_loss": 2}) + "\n")
    for index in (0, 1):
        run.log_file(index, 0).write_text("a line\n")
    return run


def tfrecord(records: Iterable[bytes]) -> bytes:
    """A TFRecord file."""
    return b"".join(map(framed, records))


def framed(record: bytes) -> bytes:
    """A record as it stands in a TFRecord file."""
    return header(len(record)) + record + struct.pack("<I", masked_crc32c(record))


def header(length: int) -> bytes:
    """The beginning of a record that claims a length, with the right checksum."""
    packed = struct.pack("<Q", length)
    return packed + struct.pack("<I", masked_crc32c(packed))


def compressed(content: bytes, kind: str) -> bytes:
    """A file as TensorFlow compresses it."""
    return {"": bytes, "GZIP": lambda data: gzip.compress(data, mtime=0), "ZLIB": zlib.compress}[kind](content)


def npz(arrays: Mapping[str, Any], packed: bool = False) -> bytes:
    """An npz file."""
    file = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(file, **arrays)
    return file.getvalue()
