"""What a notebook's kernel, launcher and workers leave for one another, damaged or cut short."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.hostile_values import changed, changed_json, scalars, values
from tests.fuzz.properties import fuzzed
from tfdist.errors import TfdistError, UsageError, WorkerFailedError
from tfdist.notebook.call_folder import CallFolder
from tfdist.notebook.function_call import read_result, write_result
from tfdist.notebook.job_outcome import JobOutcome
from tfdist.notebook.launch_options import checked_options, job_of

OUTCOME = dataclasses.asdict(JobOutcome(4, "WorkerFailedError", "worker 1 failed"))
DONE = dataclasses.asdict(JobOutcome(0))
OPTIONS = {"logical_devices": 2, "run_dir": "a", "max_restarts": 1, "step_timeout": 60, "show": "all", "seed": 7}


@fuzzed(40, content=changed_json(OUTCOME, DONE) | st.binary(max_size=100), code=st.integers(-64, 255))
def test_an_outcome_is_raised_or_taken_for_none(content: bytes, code: int, tmp_path: Path) -> None:
    folder = CallFolder(tmp_path)
    folder.outcome.write_bytes(content)
    with contextlib.suppress(TfdistError):
        JobOutcome.read(folder, code).raise_if_failed()
        assert json.loads(content)["error"] == ""


@fuzzed(25, result=values, length=st.integers(0, 200))
def test_a_result_that_was_cut_short_is_refused(result: Any, length: int, tmp_path: Path) -> None:
    folder = CallFolder(tmp_path)
    write_result(folder, result)
    whole = folder.result.read_bytes()
    assert repr(read_result(folder)) == repr(result)
    folder.result.write_bytes(whole[: min(length, len(whole) - 1)])
    with contextlib.suppress(UsageError):
        read_result(folder)
        raise AssertionError("half of a result was taken for one")


@fuzzed(40, options=changed(OPTIONS) | st.dictionaries(st.sampled_from(sorted(OPTIONS)), scalars, max_size=3))
def test_options_of_a_cell_are_a_job_or_refused(options: Any, tmp_path: Path) -> None:
    if isinstance(options, dict):
        with contextlib.suppress(UsageError, WorkerFailedError):
            job_of(str(tmp_path), "n", 2, checked_options(options))
