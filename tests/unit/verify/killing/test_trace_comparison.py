from __future__ import annotations

import dataclasses
import math

import pytest

from tests.unit.verify.killing.traces import KILLED, WHOLE, end, run, trace
from tfdist.training.probes.probe_files import Trace
from tfdist.verify.killing.trace_comparison import Finding, TracedRun, attempts_of, compare


def only_parted(killed: TracedRun, whole: TracedRun = WHOLE) -> Finding:
    [finding] = [finding for finding in compare(whole, killed) if finding.parted]
    return finding


def test_the_same() -> None:
    findings = compare(WHOLE, KILLED)
    assert [finding.what for finding in findings] == ["resume", "samples", "history", "weights"]
    assert not any(finding.parted for finding in findings)
    assert findings[1].compared == "12 steps, of which 4 were trained again"
    assert attempts_of(KILLED) == [(0, 5), (3, 8), (6, 12)]


def test_an_attempt_that_starts_over() -> None:
    finding = only_parted(run(trace(0, 5), trace(0)))
    assert (finding.what, finding.step) == ("resume", 0)
    assert finding.parted == "attempt 1 began after step 0, and the one before it after step 0"


def test_other_samples() -> None:
    finding = only_parted(run(trace(0, 5), trace(3, shift=0.5)))
    assert (finding.what, finding.step, finding.parted) == ("samples", 4, "step 4 was trained on other samples")


def test_a_worker_with_other_samples() -> None:
    killed = dataclasses.replace(KILLED, attempts=(*KILLED.attempts[:-1], (trace(6), trace(6, shift=1.0))))
    assert only_parted(killed).what == "samples"


def test_a_step_that_was_left_out() -> None:
    assert only_parted(run(trace(0, 5), trace(6))).parted == "step 6 was never trained"


def test_the_step_of_a_kill_that_the_chief_did_not_record() -> None:
    attempts = ((trace(0, 4), trace(0, 5)), (trace(3), trace(3)))
    findings = compare(WHOLE, dataclasses.replace(KILLED, attempts=attempts))
    assert not any(finding.parted for finding in findings)
    assert findings[1].compared == "12 steps, of which 2 were trained again"


def test_a_step_that_the_untouched_run_lacks() -> None:
    killed = run(trace(0, 5), trace(3), trace(11, 13))
    assert "step 13 has no counterpart" in str(compare(WHOLE, killed)[1].parted)


def test_another_history() -> None:
    finding = only_parted(run(trace(0, 5), trace(3, loss=2.0)))
    assert (finding.what, finding.step, finding.relative) == ("history", 4, 0.5)
    assert finding.parted == "loss of epoch 1: 0.5 instead of 0.25"


def test_a_nan_loss_equals_itself() -> None:
    one, other = run(trace(loss=math.nan)), run(trace(0, 5, loss=math.nan), trace(3, loss=math.nan))
    assert not any(finding.parted for finding in compare(one, other))


def test_an_epoch_that_never_ended() -> None:
    attempts = [Trace(t.steps, t.epochs[1:]) for t in (trace(0, 5), trace(3))]
    assert only_parted(run(*attempts)).parted == "the epoch that ends at step 4 never ended"


def test_another_record() -> None:
    whole, killed = run(trace(), record="{}"), run(trace(0, 5), trace(3), record="{ }")
    assert only_parted(killed, whole).parted == "history.json is another one"


def test_other_weights() -> None:
    finding = only_parted(run(trace(0, 5), trace(3), ends=(end(), end(kernel=1.5, bias=0.500001))))
    assert (finding.what, finding.parted) == ("weights", "kernel on worker 1, and 1 more")
    assert finding.relative == pytest.approx(1 / 3)


def test_each_worker_is_compared_with_itself() -> None:
    """What a replica has for itself, such as gradients that it accumulates, is another worker's never."""
    own = (end(accumulated=1.0), end(accumulated=0.0))
    whole = run(trace(), ends=own)
    assert not any(finding.parted for finding in compare(whole, run(trace(0, 5), trace(3), ends=own)))
    finding = only_parted(run(trace(0, 5), trace(3), ends=(own[0], own[0])), whole)
    assert finding.parted == "accumulated on worker 1"


def test_a_weight_that_only_one_run_has() -> None:
    finding = only_parted(run(trace(0, 5), trace(3), ends=(end(more=1.0), end())))
    assert (finding.parted, finding.relative) == ("more on worker 0", math.inf)


@pytest.mark.parametrize("whole", [True, False])
def test_no_weights_are_not_the_same(whole: bool) -> None:
    none = (None, end()) if whole else (end(), None)
    one, other = (run(trace(), ends=none), KILLED) if whole else (WHOLE, run(trace(0, 5), trace(3), ends=none))
    assert "has left no weights" in str(only_parted(other, one).parted)
