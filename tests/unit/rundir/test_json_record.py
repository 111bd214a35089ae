from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest

from tfdist.errors import RunDirError
from tfdist.rundir import Failure, State, WorkerState
from tfdist.rundir.json_record import JsonRecord
from tfdist.rundir.regular_files import MOST_JSON_BYTES

STATE = WorkerState(
    index=1, address="h:20000", host="h", pid=12, attempt=0, state=State.STEP, epoch=2, step=30, time=5.5
)
ERROR = Failure(index=1, host="h", time=5.5, kind="data", message="no\nsample", pid=12, exit_code=5, traceback="T")


@pytest.mark.parametrize("record", [STATE, dataclasses.replace(STATE, address=None), ERROR])
def test_round_trip(tmp_path: Path, record: JsonRecord) -> None:
    record.write(tmp_path / "record.json")
    assert type(record).read(tmp_path / "record.json") == record


def test_state_file_keys(tmp_path: Path) -> None:
    """A contract: other people's monitors read them."""
    STATE.write(tmp_path / "worker-1.json", durable=False)
    content = json.loads((tmp_path / "worker-1.json").read_text())
    where = ["index", "address", "host", "pid", "attempt"]
    progress = ["state", "epoch", "step", "time", "moves", "moved", "limit"]
    pace = ["rate", "busy", "begun", "step_seconds", "started", "calls", "call"]
    assert list(content) == [*where, *progress, *pace]
    assert content["state"] == "step"


def test_a_missing_file_is_none(tmp_path: Path) -> None:
    assert WorkerState.read(tmp_path / "worker-9.json") is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "\xff", json.dumps(STATE.to_dict() | {"state": "asleep"})])
def test_other_content_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "worker-1.json").write_text(text, encoding="latin-1")
    with pytest.raises(RunDirError, match="worker-1.json cannot be read as a WorkerState"):
        WorkerState.read(tmp_path / "worker-1.json")


@pytest.mark.parametrize("target", ["/dev/zero", "elsewhere.json"])
def test_a_link_is_not_followed(tmp_path: Path, target: str) -> None:
    STATE.write(tmp_path / "elsewhere.json")
    (tmp_path / "worker-1.json").symlink_to(target)
    with pytest.raises(RunDirError, match="worker-1.json cannot be read as a WorkerState: .*symbolic link"):
        WorkerState.read(tmp_path / "worker-1.json")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "worker-1.json")
    with pytest.raises(RunDirError, match="not a regular file"):
        WorkerState.read(tmp_path / "worker-1.json")


def test_what_is_nested_without_end_or_too_large_is_refused(tmp_path: Path) -> None:
    for content in (b"[" * 100_000, b" " * (MOST_JSON_BYTES + 1)):
        (tmp_path / "worker-1.json").write_bytes(content)
        with pytest.raises(RunDirError, match="nested too deeply|has more than"):
            WorkerState.read(tmp_path / "worker-1.json")


def test_keys_of_a_later_version_are_ignored() -> None:
    assert WorkerState.from_dict(STATE.to_dict() | {"samples": 3}) == STATE


def test_an_unknown_state_is_refused() -> None:
    assert dataclasses.replace(STATE, state="saving").state is State.SAVING  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="asleep"):
        dataclasses.replace(STATE, state="asleep")  # type: ignore[arg-type]
