from __future__ import annotations

import dataclasses
import json

from tests.unit.verify.killing.traces import KILLED, WHOLE, run, trace
from tfdist.launch.worker_requests import Kill
from tfdist.verify.killing.kill_plan import KillSpec
from tfdist.verify.killing.kill_report import KilledAttempt, KillVerification, render, to_json
from tfdist.verify.killing.trace_comparison import TracedRun, attempts_of, compare

KILLS = (Kill(1, 5), Kill(0, 8), None)


def verification(killed: TracedRun, is_repeatable: bool | None = None) -> KillVerification:
    attempts = tuple(KilledAttempt(*steps, kill) for steps, kill in zip(attempts_of(killed), KILLS, strict=True))
    return KillVerification(
        steps=12, attempts=attempts, findings=compare(WHOLE, killed), is_repeatable=is_repeatable
    )


PASSED = verification(KILLED)
PARTED = verification(run(trace(0, 5), trace(3, 8), trace(6, loss=2.0)), is_repeatable=True)


def test_the_same() -> None:
    assert (
        render(PASSED)
        == """\
The untouched run trained 12 steps. The other one:
  attempt  steps before  killed    after step
        0             0  worker 1           5
        1             3  worker 0           8
        2             6  -                 12

  each attempt begins later  same  2 restarts
  order of samples           same  12 steps, of which 4 were trained again
  history                    same  3 epochs of 1 metrics
  final weights, to the bit  same  2 weights and variables of the optimizer, on 2 worker(s)

verify: killed 2 times, the same as untouched (exit code 0)"""
    )


def test_a_difference() -> None:
    said = render(PARTED)
    assert "  history                    PARTED  3 epochs" in said
    assert "PARTED  history: loss of epoch 2: 0.25 instead of 0.125 (relative difference 5.0e-01)" in said
    assert "likely cause: a metric or a callback" in said
    assert said.endswith("verify: killed 2 times, not the same as untouched (exit code 6)")


def test_a_training_that_cannot_be_repeated_is_named_first() -> None:
    said = render(dataclasses.replace(PARTED, is_repeatable=False))
    assert "likely cause: the training cannot be repeated." in said
    assert "a metric or a callback" not in said


def test_a_run_that_failed() -> None:
    said = render(KillVerification(failure="the killed run ended with exit code 5", failure_code=5))
    assert said.startswith("FAILED  the killed run") and said.endswith("verify: a run failed (exit code 5)")


def test_the_report() -> None:
    spec = KillSpec("script", "train.py", "train", args=("--x",), kills=2)
    report = json.loads(json.dumps(to_json(spec, PARTED), allow_nan=False))
    assert (report["target"], report["args"], report["workers"], report["kills"]) == ("train.py", ["--x"], 2, 2)
    assert (report["exit_code"], report["steps"], report["repeatable"]) == (6, 12, True)
    assert report["attempts"][1] == {"steps_before": 3, "steps_after": 8, "killed": 0}
    assert [finding["same"] for finding in report["comparisons"]] == [True, True, False, True]
    assert report["comparisons"][2]["relative"] == 0.5
