from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest

from tests.unit.verify.replicas.recordings import NO_FACTS, begin, recording, step, weights
from tfdist.training.probes.probe_files import Moment
from tfdist.verify.replicas.likely_causes import Cause
from tfdist.verify.replicas.recording_comparison import Tolerance, compare
from tfdist.verify.replicas.variants import VerifySpec
from tfdist.verify.replicas.verification_report import (
    ComparisonResult,
    ComparisonVerdict,
    Verification,
    render,
    to_json,
)

CAUSE = Cause("whole batch", "a layer that uses the whole batch")


def result(*other: Moment, tolerance: Tolerance | None = None) -> ComparisonResult:
    comparison = compare(recording(begin(), step(1), step(2)), [recording(*other)], tolerance or Tolerance(1e-5))
    if comparison.passed:
        return ComparisonResult("2 replicas", "1 replica", ComparisonVerdict.PASSED, comparison)
    return ComparisonResult("2 replicas", "1 replica", ComparisonVerdict.PARTED, comparison, (CAUSE,))


PASSED = result(begin(), step(1), step(2, loss=1 + 1e-6))
PARTED = result(begin(), step(1), step(2, loss=1.1, norm=math.nan, weights=weights(kernel=[1.0, -1.5], bias=0.1)))
FAILED = ComparisonResult(
    "2 workers", "1 replica", ComparisonVerdict.FAILED, reason="The run ended with exit code 5", code=5
)
SKIPPED = ComparisonResult("float32", None, ComparisonVerdict.SKIPPED, reason="not available here: no such thing")


def verification(*results: ComparisonResult, **changes: Any) -> Verification:
    return dataclasses.replace(Verification(results, 1e-5, is_measured=True, facts=(NO_FACTS,), trained=2), **changes)


def shown(*results: ComparisonResult, steps: int = 2, **changes: Any) -> str:
    return render(verification(*results, **changes), steps)


def test_a_run_that_passes() -> None:
    assert shown(PASSED) == (
        "Tolerance: 10 times what rounding was seen to do to this training on 1 replica, and at least 1e-05.\n"
        "\n"
        "2 replicas against 1 replica\n"
        "        loss, epoch so far     gradient norm          largest relative difference of\n"
        "  step  1 replica  2 replicas  1 replica  2 replicas  data     loss  gradient  weights\n"
        "     0          -           -          -           -     -        -         -        0\n"
        "     1          1           1          2           2  same        0         0        0\n"
        "     2          1           1          2           2  same  1.0e-06         0        0\n"
        "  PASSED  the same up to rounding; largest differences: loss 1.0e-06, gradient norm 0, weights 0\n"
        "\n"
        "verify: 1 passed (exit code 0)"
    )


def test_a_run_that_differs() -> None:
    text = shown(PARTED)
    assert "9.1e-02 !" in text and "inf !" in text
    assert "PARTED  at step 2: loss (1 against 1.1, 9.1e-02; 1.0e-05 is allowed)" in text
    assert "first weight: bias at step 2 (8.0e-01, and 1 more)" in text
    assert "likely cause: a layer that uses the whole batch" in text
    assert text.endswith("verify: 1 parted (exit code 6)")


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ((), 0),
        ((PASSED, SKIPPED), 0),
        ((PASSED, FAILED), 5),
        ((FAILED, PARTED), 6),
    ],
)
def test_the_exit_code(results: tuple[ComparisonResult, ...], code: int) -> None:
    assert verification(*results).code == code


def test_skipped_and_failed_comparisons_are_not_passed() -> None:
    text = shown(SKIPPED, FAILED)
    assert "float32\n  SKIPPED  not available here: no such thing" in text
    assert "2 workers against 1 replica\n  FAILED  The run ended with exit code 5" in text
    assert text.endswith("verify: 1 failed, 1 skipped (exit code 5)")


def test_quantities_that_were_not_judged_are_named() -> None:
    measured = {(2, "weights", "bias"): 0.5, (2, "loss", "loss"): 0.5}
    moved = step(2, loss=1.1, weights=weights(kernel=[1.0, -1.0], bias=0.1))
    text = shown(result(begin(), step(1), moved, tolerance=Tolerance(1e-5, measured=measured)))
    assert "(9.1e-02)" in text and " ! " not in text
    assert "not judged, as rounding alone moves them elsewhere in every run: bias" in text
    assert "not judged from step 2 on, as this training multiplies rounding: loss" in text


def test_the_tolerance_is_shown() -> None:
    assert "Tolerance: a relative difference of 0.001." in shown(PASSED, least=1e-3, is_measured=False)
    assert "Layers compute in 16 bits" in shown(PASSED, half=True)
    assert "Workers send gradients in bfloat16: " in shown(PASSED, compression="bfloat16")


@pytest.mark.parametrize(
    ("steps", "epoch", "expected"),
    [
        (2, None, None),
        (2, 2, None),
        (5, None, "The target trained 2 of the 5 steps, and then ended."),
        (2, 12, "No epoch ended in 2 steps: --steps 12 compares its last batch too"),
        (2, 100_000, None),
    ],
)
def test_the_number_of_trained_steps_is_shown(steps: int, epoch: int | None, expected: str | None) -> None:
    text = shown(PASSED, steps=steps, facts=({**NO_FACTS, "epoch_steps": epoch},))
    assert (expected or "exit code 0") in text
    assert ("step " in text.split("\n\n")[0] or "steps" in text.split("\n\n")[0]) == (expected is not None)


def test_lines_fit_a_terminal() -> None:
    text = shown(PARTED, ComparisonResult("x", None, ComparisonVerdict.SKIPPED, reason="word " * 100))
    assert max(map(len, text.splitlines())) <= 120


def test_the_report_is_json_with_every_number() -> None:
    spec = VerifySpec("script", "train.py", "train", args=("--epochs", "3"))
    content = json.loads(json.dumps(to_json(spec, verification(PARTED, SKIPPED)), allow_nan=False))
    assert (content["target"], content["args"], content["steps"], content["exit_code"]) == (
        "train.py",
        ["--epochs", "3"],
        5,
        6,
    )
    parted, skipped = content["comparisons"]
    assert (parted["verdict"], parted["run"], parted["reference"]) == ("parted", "2 replicas", "1 replica")
    assert parted["first"] == {
        "step": 2,
        "kind": "loss",
        "name": "loss",
        "relative": pytest.approx(0.1 / 1.1),
        "allowed": 1e-5,
        "reference": 1.0,
        "run": 1.1,
    }
    assert parted["first_weight"]["name"] == "bias"
    assert parted["causes"] == [{"key": "whole batch", "text": CAUSE.text}]
    norms = [d for d in parted["steps"][2]["differences"] if d["kind"] == "gradient norm"]
    assert [(d["relative"], d["run"]) for d in norms] == [("inf", "nan")]
    assert (skipped["verdict"], skipped["reason"]) == ("skipped", "not available here: no such thing")
