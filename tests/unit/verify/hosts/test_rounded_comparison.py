from __future__ import annotations

import json

import pytest

from tests.unit.verify.hosts.lossy_traces import ALONE, CHANGED, UNCHANGED, WHOLE, attempt, run
from tests.unit.verify.killing.traces import end
from tfdist.verify.hosts.rounded_comparison import Rounding, compare_rounded, has_changed, is_loss
from tfdist.verify.killing.trace_comparison import Finding, TracedRun

ROUNDING = Rounding(ALONE, WHOLE)


def only_parted(lossy: TracedRun, rounding: Rounding | None = ROUNDING, whole: TracedRun = WHOLE) -> Finding:
    [finding] = [finding for finding in compare_rounded(whole, lossy, rounding) if finding.parted]
    return finding


def test_whether_the_number_has_changed() -> None:
    assert has_changed(WHOLE, CHANGED)
    assert not has_changed(WHOLE, UNCHANGED)
    # A worker that was lost before it could say how many they are.
    assert has_changed(WHOLE, run((*attempt(3, 0, 5)[:2], CHANGED.attempts[0][0].__class__()), attempt(3, 3)))


def test_the_same_up_to_rounding() -> None:
    findings = compare_rounded(WHOLE, CHANGED, ROUNDING)
    assert [finding.what for finding in findings] == ["alone", "resume", "samples", "history", "weights"]
    assert not any(finding.parted for finding in findings)
    assert findings[3].compared == "3 epochs of 1 metrics, 1 to the bit, differences up to 1e-06"
    assert findings[4].compared == "2 weights and variables of the optimizer, on 3 worker(s), differences up to 0e+00"


def test_without_a_change_of_the_number_all_is_to_the_bit() -> None:
    assert not any(finding.parted for finding in compare_rounded(WHOLE, UNCHANGED, None))
    other = run(attempt(3, 0, 5), attempt(3, 3, loss=1 + 1e-7))
    assert only_parted(other, None).what == "history"
    nearly = run(*UNCHANGED.attempts, ends=(end(kernel=1 + 1e-6),) * 3)
    assert only_parted(nearly, None).what == "weights"


def test_until_the_number_changes_all_is_to_the_bit() -> None:
    finding = only_parted(run(attempt(3, 0, 5, loss=1 + 1e-7), attempt(2, 3)))
    assert (finding.what, finding.step) == ("history", 4)


def test_a_loss_beyond_rounding() -> None:
    finding = only_parted(run(attempt(3, 0, 5), attempt(2, 3, loss=1.001)))
    assert (finding.what, finding.step) == ("history", 4)
    assert str(finding.parted).startswith("loss of epoch 1: 0.25025")
    assert finding.relative == pytest.approx(0.001, rel=0.01)


def test_a_weight_beyond_rounding() -> None:
    # Ten times what one worker does, which is 2e-6.
    assert not any(f.parted for f in compare_rounded(WHOLE, run(*CHANGED.attempts, ends=_ends(1 + 1e-5)), ROUNDING))
    finding = only_parted(run(*CHANGED.attempts, ends=_ends(1 + 4e-5)))
    assert (finding.what, finding.parted) == ("weights", "kernel on worker 0")
    assert "differences up to 4e-05" in finding.compared


def test_a_host_that_is_back_with_other_weights() -> None:
    finding = only_parted(run(*CHANGED.attempts, ends=(end(), end(), end(bias=0.6))))
    assert (finding.what, finding.parted) == ("weights", "bias on worker 2")


def test_a_tolerance_that_is_given_needs_no_run_on_one_worker() -> None:
    fixed = Rounding(None, WHOLE, 1e-7)
    assert [finding.what for finding in compare_rounded(WHOLE, CHANGED, fixed)][0] == "resume"
    assert only_parted(CHANGED, fixed).what == "history"
    assert not any(f.parted for f in compare_rounded(WHOLE, CHANGED, Rounding(None, WHOLE, 1e-5)))


def test_what_rounding_moves_is_not_judged() -> None:
    alone = run(attempt(1), ends=(end(bias=0.4),))
    findings = compare_rounded(WHOLE, run(*CHANGED.attempts, ends=(end(bias=9.0),) * 3), Rounding(alone, WHOLE))
    assert not any(finding.parted for finding in findings)
    assert findings[4].compared.startswith("1 weights and variables")
    assert findings[4].compared.endswith(" (1 not judged)")


def test_what_workers_have_for_themselves_is_not_judged() -> None:
    whole = run(attempt(3), ends=(end(bias=0.1), end(bias=0.2), end(bias=0.3)))
    findings = compare_rounded(whole, run(*CHANGED.attempts, ends=(end(bias=7.0),) * 3), Rounding(ALONE, whole))
    assert not any(finding.parted for finding in findings)


def test_a_verification_that_judges_no_weight_does_not_pass() -> None:
    alone = run(attempt(1), ends=(end(bias=0.4, kernel=2.0),))
    finding = only_parted(CHANGED, Rounding(alone, WHOLE))
    assert finding.what == "weights" and "rounding alone moves all of them" in str(finding.parted)


@pytest.mark.parametrize(
    ("alone", "parted"),
    [
        (run(attempt(1, loss=1.01), ends=(end(),)), "loss of epoch 1: 0.25 instead of 0.2525"),
        (run(attempt(1, shift=0.5), ends=(end(),)), "step 1 was trained on other samples"),
    ],
)
def test_a_training_that_depends_on_the_number_of_workers(alone: TracedRun, parted: str) -> None:
    finding = next(f for f in compare_rounded(WHOLE, CHANGED, Rounding(alone, WHOLE)) if f.parted)
    assert (finding.what, finding.parted) == ("alone", parted)


def test_other_samples_and_attempts_that_start_over() -> None:
    assert only_parted(run(attempt(3, 0, 5), attempt(2, 3, shift=0.5))).what == "samples"
    assert only_parted(run(attempt(3, 0, 5), attempt(2))).what == "resume"


def test_epochs_that_are_missing_or_too_many() -> None:
    lacking = run(attempt(3, 0, 3), attempt(2, 2, 10))
    history = next(f for f in compare_rounded(WHOLE, lacking, ROUNDING) if f.what == "history")
    assert history.parted == "the epoch that ends at step 12 never ended"
    short = run(attempt(3, 0, 9))
    history = next(f for f in compare_rounded(short, CHANGED, Rounding(ALONE, short)) if f.what == "history")
    assert history.parted == "the untouched run has no epoch that ends at step 12"


def test_weights_that_are_missing_or_others() -> None:
    assert only_parted(run(*CHANGED.attempts, ends=(end(), None, end()))).parted == "worker 1 has left no weights"
    others = run(*CHANGED.attempts, ends=(end(), end(), end(more=1.0)))
    assert only_parted(others).parted == "worker 2 has other weights than the untouched run"
    nothing = run(attempt(3), ends=(None, None, None))
    assert only_parted(CHANGED, ROUNDING, nothing).parted == "the untouched run has left no weights"


def test_the_record_of_a_config() -> None:
    def recorded(*losses: float) -> str:
        return json.dumps({"loss": losses})

    whole = run(attempt(3), record=recorded(0.25, 0.125))
    rounding = Rounding(ALONE, whole)
    nearly = run(*CHANGED.attempts, record=recorded(0.25, 0.1250001))
    assert not any(finding.parted for finding in compare_rounded(whole, nearly, rounding))
    for record in (recorded(0.25), recorded(0.25, 0.2), None):
        finding = only_parted(run(*CHANGED.attempts, record=record), rounding, whole)
        assert str(finding.parted).startswith("loss in history.json: ")


def test_metrics_that_are_no_losses_may_move_by_a_sample() -> None:
    assert [is_loss(name) for name in ("loss", "val_loss", "head_loss", "accuracy", "lossless")] == [True] * 3 + [
        False
    ] * 2
    assert Rounding(ALONE, WHOLE).of_metric("accuracy") == pytest.approx(0.02)


def _ends(kernel: float) -> tuple:
    return (end(kernel=kernel),) * 3
