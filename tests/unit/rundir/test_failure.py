"""The failure record: its files, which are a contract, and its wording."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest

from tfdist.errors import RunDirError
from tfdist.rundir.failure import Failure

FAILURE = Failure(index=1, host="h", time=6.5, kind="exception", message="no\nsample", type="ValueError")
ERROR = Failure(
    index=1,
    host="h",
    pid=12,
    exit_code=5,
    kind="data",
    type="DataError",
    message="no\nsample",
    traceback="Traceback",
    time=5.5,
)


def test_where_it_was_is_said_from_the_first_step_on() -> None:
    """An evaluation, and what comes before the first step of a training, are in no epoch."""
    whens = [dataclasses.replace(FAILURE, epoch=0, step=step).when for step in (None, 0, 3)]
    assert whens == ["", "", "in epoch 1 after step 3"]


def test_a_failure_survives_json() -> None:
    before = dataclasses.replace(FAILURE, last_lines=("a", "b"), address="h:1")
    assert Failure.from_dict(json.loads(json.dumps(before.to_dict()))) == before


def test_keys_of_a_failure() -> None:
    """A contract: other people's monitors read them in failure.json."""
    what = ["index", "host", "time", "kind", "message", "address", "pid", "exit_code", "type", "traceback"]
    assert list(FAILURE.to_dict()) == [*what, "epoch", "step", "log", "last_lines"]


def test_an_error_file_is_read_with_its_kind(tmp_path: Path) -> None:
    ERROR.write_error(tmp_path / "error.json")
    content = json.loads((tmp_path / "error.json").read_text())
    what = ["index", "host", "pid", "exit_code", "type", "message", "traceback"]
    assert list(content) == [*what, "time", "epoch", "step"]
    assert Failure.read(tmp_path / "error.json") == ERROR


@pytest.mark.parametrize("value", [None, 3, {}, {"last_lines": [], "unknown": 1}])
def test_other_content_is_refused(value: object) -> None:
    with pytest.raises(RunDirError, match="Not a Failure"):
        Failure.from_dict(value)


def test_a_failure_in_words() -> None:
    assert (FAILURE.what, FAILURE.what_in_line()) == ("ValueError: no\nsample", "ValueError: no sample")
    assert (FAILURE.who, FAILURE.when) == ("worker 1 (h)", "")
    full = dataclasses.replace(FAILURE, pid=7, epoch=2, step=418, kind="signal", type="SIGKILL", message="killed")
    assert (full.who, full.when, full.what) == ("worker 1 (h, pid 7)", "in epoch 3 after step 418", "killed")


@pytest.mark.parametrize(
    "changed",
    [
        {"message": 1},
        {"step": "4"},
        {"pid": ""},
        {"address": 0},
        {"index": None},
        {"time": math.nan},
        {"exit_code": math.inf},
        {"last_lines": 3},
        {"last_lines": [None]},
    ],
)
def test_fields_have_their_types(changed: dict[str, object]) -> None:
    with pytest.raises(RunDirError, match="Not a Failure"):
        Failure.from_dict(FAILURE.to_dict() | changed)


def test_a_failure_names_its_address_and_fits_a_line() -> None:
    here = dataclasses.replace(FAILURE, address="h:20001", pid=7)
    assert here.who == "worker 1 (h, h:20001, pid 7)"
    assert here.what_in_line() == "ValueError: no sample"
    assert here.what_in_line(14) == "ValueError:..."
