from __future__ import annotations

import dataclasses
import json

from tests.unit.verify.hosts.lossy_traces import ALONE, CHANGED, UNCHANGED, WHOLE, attempt, run
from tfdist.verify.hosts.hosts_report import Generation, HostsVerification, render, to_json
from tfdist.verify.hosts.rounded_comparison import Rounding, compare_rounded
from tfdist.verify.hosts.schedule import HostEvent, HostsSpec
from tfdist.verify.killing.trace_comparison import TracedRun

GENERATIONS = (
    Generation(0, 3, 0, 5, HostEvent("lost", (2,), is_cut=True)),
    Generation(1, 2, 3, 8, HostEvent("back", (2,))),
    Generation(3, 3, 6, 12),
)
TWICE = HostsVerification(steps=12, hosts=3, losses=2, generations=GENERATIONS)


def verification(lossy: TracedRun = CHANGED, is_repeatable: bool | None = None) -> HostsVerification:
    findings = compare_rounded(WHOLE, lossy, Rounding(ALONE, WHOLE))
    return HostsVerification(
        steps=12, hosts=3, losses=1, generations=GENERATIONS, findings=findings, is_repeatable=is_repeatable
    )


def test_the_same() -> None:
    assert (
        render(verification())
        == """\
The untouched run trained 12 steps on 3 hosts. The other one:
  attempt  workers  steps before  after step
        0        3             0           5  host 2 is lost (link cut)
        1        2             3           8  host 2 is back
        3        3             6          12

  one worker as all          same  losses differ by up to 1e-07
  each attempt begins later  same  2 restarts
  order of samples           same  12 steps, of which 4 were trained again
  history                    same  3 epochs of 1 metrics, 1 to the bit, differences up to 1e-06
  final weights              same  2 weights and variables of the optimizer, on 3 worker(s), differences up to 0e+00

verify: hosts lost once, the same as untouched (exit code 0)"""
    )


def test_a_number_that_never_changed() -> None:
    findings = compare_rounded(WHOLE, UNCHANGED, None)
    said = render(dataclasses.replace(TWICE, findings=findings, is_exact=True))
    assert "  final weights, to the bit  same  2 weights and variables" in said
    assert said.endswith("verify: hosts lost 2 times, the same as untouched (exit code 0)")


def test_a_difference() -> None:
    said = render(verification(run(attempt(3, 0, 5), attempt(2, 3, loss=2.0)), is_repeatable=True))
    assert "PARTED  history: loss of epoch 1: 0.5 instead of 0.25 (relative difference 5.0e-01)" in said
    assert "likely cause: a metric or a callback" in said
    assert said.endswith("verify: hosts lost once, not the same as untouched (exit code 6)")


def test_a_training_that_depends_on_the_number_of_workers() -> None:
    alone = run(attempt(1, loss=1.5))
    said = render(dataclasses.replace(TWICE, findings=compare_rounded(WHOLE, CHANGED, Rounding(alone, WHOLE))))
    assert "PARTED  one worker as all: loss of epoch 1: 0.25 instead of 0.375" in said
    assert "likely cause: the training depends on the number of workers" in said


def test_a_run_that_failed() -> None:
    said = render(HostsVerification(failure="host 0 ended with exit code 3", failure_code=3))
    assert said == "FAILED  host 0 ended with exit code 3\n\nverify: a run failed (exit code 3)"


def test_the_report() -> None:
    spec = HostsSpec("script", "train.py", "train", args=("--x",), kills=1)
    report = json.loads(json.dumps(to_json(spec, verification()), allow_nan=False))
    assert (report["hosts"], report["min_workers"], report["kills"], report["exit_code"]) == (3, 2, 1, 0)
    assert report["attempts"][0] == {
        "attempt": 0,
        "workers": 3,
        "steps_before": 0,
        "steps_after": 5,
        "event": {"kind": "lost", "hosts": [2], "cut": True},
    }
    assert report["attempts"][2]["event"] is None
    assert [comparison["same"] for comparison in report["comparisons"]] == [True] * 5
