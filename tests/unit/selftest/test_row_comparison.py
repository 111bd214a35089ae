"""Comparisons of recordings made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.selftest.results import DEVICES, ROW, WORKERS
from tests.unit.verify.replicas.recordings import begin, recording, step, weights
from tfdist.selftest.rows import RowRun
from tfdist.selftest.selftest import compare_row, part_of
from tfdist.training.probes.probe_files import Moment, Recording
from tfdist.verify.replicas.verification_report import ComparisonVerdict


def run(*moments: Moment, workers: int = 1, **facts: Any) -> RowRun:
    return RowRun(seconds=2.0, recordings=workers * (recording(*(moments or (begin(), step())), **facts),))


def test_the_same() -> None:
    result = compare_row(ROW, DEVICES, run(), run(), run(begin(), step(loss=1.0 + 4e-6)))
    assert (result.verdict, result.where, result.seconds) == (ComparisonVerdict.PASSED, "loss, step 1", 2.0)
    assert result.greatest == pytest.approx(4e-6, rel=1e-3)
    assert result.allowed == 1e-5
    assert not result.detail and not result.document


def test_gradients_that_workers_send_in_16_bits() -> None:
    other = run(begin(), step(norm=2.01, weights=weights(kernel=[1.0, -1.1], bias=0.5)), workers=2)
    assert compare_row(ROW, WORKERS, run(), run(), other).verdict is ComparisonVerdict.PARTED
    assert compare_row(ROW, WORKERS, run(), run(), other, "bfloat16").verdict is ComparisonVerdict.PASSED


def test_a_difference_is_named_with_all_its_numbers() -> None:
    other = run(begin(), step(loss=1.5), workers=2)
    result = compare_row(ROW, WORKERS, run(), run(), other)
    assert (result.verdict, result.where) == (ComparisonVerdict.PARTED, "loss, step 1")
    assert result.greatest == pytest.approx(1 / 3)
    assert "2 workers against 1 device" in result.detail and "PARTED  at step 1" in result.detail
    assert result.reason.startswith("likely cause: ")
    assert result.document["verdict"] == "parted"
    assert [row["step"] for row in result.document["steps"]] == [0, 1]


def test_workers_that_part_from_each_other() -> None:
    parted = recording(begin(), step(weights=weights(kernel=[1.0, -0.5], bias=0.5)))
    other = RowRun(recordings=(recording(begin(), step()), parted))
    assert compare_row(ROW, WORKERS, run(), run(), other).verdict is ComparisonVerdict.PARTED


def test_what_rounding_does_is_allowed_ten_times() -> None:
    again = run(begin(), step(loss=1.0 + 1e-5))
    result = compare_row(ROW, DEVICES, run(), again, run(begin(), step(loss=1.0 + 9e-5)))
    assert result.verdict is ComparisonVerdict.PASSED
    assert result.allowed == pytest.approx(1e-4, rel=1e-3)


def test_a_training_that_one_device_cannot_repeat_is_no_reference() -> None:
    again = run(begin(), step(loss=2.0))
    result = compare_row(ROW, DEVICES, run(), again, run())
    assert result.verdict is ComparisonVerdict.PARTED
    assert result.document["run"] == "1 device again"


@pytest.mark.parametrize(("place", "label"), [(0, "1 device"), (1, "1 device again"), (2, "2 devices")])
def test_a_run_that_failed(place: int, label: str) -> None:
    runs = [run(), run(), run()]
    runs[place] = RowRun("exit code 4: it crashed", "traceback")
    result = compare_row(ROW, DEVICES, *runs)
    assert (result.verdict, result.detail) == (ComparisonVerdict.FAILED, "traceback")
    assert result.reason == f"on {label}: exit code 4: it crashed"


def test_nothing_in_common_is_no_success() -> None:
    bare = Moment(1, 0)
    result = compare_row(ROW, DEVICES, *3 * [run(Moment(0, 0), bare)])
    assert result.verdict is ComparisonVerdict.FAILED
    assert result.reason.startswith("nothing was compared")


def test_a_part_of_a_run() -> None:
    second = (Moment(2, 1), Moment(3, 1, {"loss": 5.0}))
    both = RowRun(recordings=(Recording({"models": [{"a": 1}, {"b": 2}]}, (begin(), step(), *second)),))
    (part,) = part_of(both, range(1, 2)).recordings
    assert [(moment.step, moment.fit) for moment in part.moments] == [(0, 0), (1, 0)]
    assert part.facts["models"] == [{"b": 2}]
    failed = RowRun("it crashed")
    assert part_of(failed, range(1, 2)) is failed
