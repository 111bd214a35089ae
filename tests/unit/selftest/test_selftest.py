"""The order of a selftest, with stand-in runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.selftest.results import machine, result
from tests.unit.verify.replicas.recordings import begin, recording, step, weights
from tfdist.errors import UsageError
from tfdist.selftest import selftest as module
from tfdist.selftest.layouts import Layout
from tfdist.selftest.row_jobs import RowJobs, TimeUp
from tfdist.selftest.rows import Row, RowResult, RowRun, SelftestSpec
from tfdist.selftest.selftest import Listener, run_selftest
from tfdist.training.probes.probe_files import Recording
from tfdist.verify.replicas.verification_report import ComparisonVerdict

LABELS = ("2 logical devices", "2 workers")
FOUND = {
    "copies": {"pairs": [], "sums": [{"elements": 1, "wrong": 0, "bytes_per_second": 1.0}]},
    "speed": {"wide": {"seconds": 0.5, "batch": 64}},
}


class Machine:
    """Stands in for all jobs of a machine.

    Args:
        gpus: How many it has.
        wrong: Row and label of the layout in which a training gives another loss, or copies arrive as others.
        failing: The same where a run fails.
        up_after: Jobs after which the time is up.
        loss: What a wrong training gives.
        moved: The same as `wrong` where a training begins its last `fit` with other weights.
        up_in: Row and label of the layout after which it is up, while other rows of the job go on.
    """

    def __init__(
        self,
        gpus: int = 0,
        wrong: Iterable[tuple[str, str]] = (),
        failing: Iterable[tuple[str, str]] = (),
        loss: float = 2.0,
        moved: Iterable[tuple[str, str]] = (),
        up_after: int = 99,
        up_in: tuple[str, str] | None = None,
    ) -> None:
        self.up_in, self.loss, self.moved = up_in, loss, set(moved)
        self.gpus, self.wrong, self.failing, self.up_after = gpus, set(wrong), set(failing), up_after
        self.asked: list[tuple[tuple[str, ...], str, dict[str, Any]]] = []
        self.told: list[str] = []
        self.results: list[RowResult] = []

    def run(self, names: Sequence[str], layout: Layout, **options: Any) -> dict[str, RowRun]:
        if len(self.asked) == self.up_after:
            raise TimeUp
        finished = options.pop("finished", lambda name, run: None)
        self.asked.append((tuple(names), layout.label, options))
        runs = {name: self._row(name, layout, options) for name in names}
        for name, run in runs.items():
            if not run.problem:
                finished(name, run)
            if (name, layout.label) == self.up_in:
                raise TimeUp
        return runs

    def _row(self, name: str, layout: Layout, options: dict[str, Any]) -> RowRun:
        if (name, layout.label) in self.failing:
            return RowRun("exit code 4: it crashed", "traceback")
        is_wrong = (name, layout.label) in self.wrong
        if not options.get("recorded"):
            if is_wrong and not options.get("variables"):
                return RowRun(found=({"pairs": [], "sums": [{**FOUND["copies"]["sums"][0], "wrong": 1}]},))
            return RowRun(found=(FOUND[name],))
        once = recording(begin(), step(loss=self.loss if is_wrong else 1.0))
        elsewhere = {"weights": weights(kernel=[1.0, -1.1], bias=0.5)} if (name, layout.label) in self.moved else {}
        last = recording(begin(**elsewhere), step(**elsewhere)) if elsewhere else once
        parts = layout.workers * (twice(once, last) if name == "saving" else last,)
        return RowRun(seconds=1.0, recordings=parts, saved=f"saved on {layout.label}")

    def selftest(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Any:
        def killed(row: Row, layout: Layout, jobs: RowJobs) -> RowResult:
            self.asked.append(((row.name,), layout.label, {"killed": True}))
            return result(row=row, layout=layout)

        monkeypatch.setattr(module, "look", lambda began, seconds: machine(self.gpus))
        monkeypatch.setattr(RowJobs, "run", lambda jobs, *args, **more: self.run(*args, **more))
        monkeypatch.setattr(module, "run_killed", killed)
        listener = Listener(tell=self.told.append, result=self.results.append)
        return run_selftest(SelftestSpec(**options), listener)


def twice(first: Recording, last: Recording) -> Recording:
    """A recording of two fits, of recordings of one each."""
    again = [replace(moment, step=moment.step + 1, fit=1) for moment in last.moments]
    return Recording({**first.facts, "models": 2 * first.facts["models"]}, (*first.moments, *again))


def verdicts(results: Iterable[RowResult]) -> dict[tuple[str, str], str]:
    return {(each.row.name, each.layout.label): each.verdict.value for each in results}


def test_everything_on_a_machine_without_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Machine()
    report = fake.selftest(monkeypatch)
    assert report.code == 0
    # Every row in every layout, told as they came.
    assert list(report.results) == fake.results
    assert {place for place in verdicts(report.results) if place != ("speed", "1 device")} == {
        (row.name, label) for row in SelftestSpec().rows for label in ("2 logical devices", "2 workers")
    }
    assert [time.layout for time in report.times] == ["1 device", "2 logical devices", "2 workers"]


def test_rows_share_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Machine()
    fake.selftest(monkeypatch, only=("dense", "saving", "resume", "copies"))
    both = ("dense", "saving")
    assert [(names, label) for names, label, _ in fake.asked] == [
        # First: where copies arrive damaged, nothing after them is right.
        (("copies",), "2 logical devices"),
        (("copies",), "2 workers"),
        (both, "1 device"),
        (both, "1 device"),
        (both, "2 logical devices"),
        (("loading",), "1 device"),
        (both, "2 workers"),
        (("loading",), "1 device"),
        (("resume",), "2 logical devices"),
        (("resume",), "2 workers"),
    ]
    assert [options.get("perturbed", False) for _, _, options in fake.asked][2:5] == [False, True, False]
    assert fake.asked[5][2]["saved"] == "saved on 2 logical devices"


def test_a_row_that_differs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Machine(wrong={("masks", "2 workers")}).selftest(monkeypatch, only=("dense", "masks"))
    assert report.code == 6
    assert {place for place, verdict in verdicts(report.results).items() if verdict == "parted"} == {
        ("masks", "2 workers")
    }


def test_a_model_that_is_another_one_where_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Machine(wrong={("loading", "1 device")}).selftest(monkeypatch, only=("saving",))
    assert report.code == 6
    assert all(each.where == "loaded on 1 device: loss, step 1" for each in report.results)


@pytest.mark.parametrize(("compression", "parted"), [("none", 4), ("bfloat16", 2)])
def test_gradients_that_are_sent_in_16_bits_are_judged_so_on_workers(
    monkeypatch: pytest.MonkeyPatch, compression: str, parted: int
) -> None:
    fake = Machine(wrong={(row, label) for row in ("dense", "saving") for label in LABELS}, loss=1.01)
    report = fake.selftest(monkeypatch, only=("dense", "saving"), compression=compression)
    found = verdicts(report.results)
    assert list(found.values()).count("parted") == parted
    assert compression == "none" or {found[name, "2 workers"] for name in ("dense", "saving")} == {"passed"}


def test_what_compressed_workers_have_saved_is_compared_with_what_they_train_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # One device alone has other weights before it trains further, which are no rounding error.
    fake = Machine(moved={("saving", "2 workers"), ("loading", "1 device")})
    options: dict[str, Any] = {"only": ("saving",), "compression": "bfloat16"}
    assert verdicts(fake.selftest(monkeypatch, **options).results)["saving", "2 workers"] == "passed"
    fake = Machine(moved={("loading", "1 device")})
    assert verdicts(fake.selftest(monkeypatch, **options).results)["saving", "2 workers"] == "parted"


def test_nccl_where_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for gpus, received in ((0, "2 logical devices of the CPU"), (1, "2 logical devices of a GPU")):
        with pytest.raises(UsageError, match=f"Received: --communication nccl, and {received}"):
            Machine(gpus=gpus).selftest(monkeypatch, communication="nccl")
    assert Machine(gpus=2).selftest(monkeypatch, only=("dense",), communication="nccl").code == 0


def test_a_row_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Machine(failing={("xla", "2 workers"), ("speed", "2 workers")}).selftest(
        monkeypatch, only=("dense", "xla", "speed")
    )
    assert report.code == 4
    assert [place for place, verdict in verdicts(report.results).items() if verdict == "failed"] == [
        ("xla", "2 workers"),
        ("speed", "2 workers"),
    ]


def test_a_reference_that_fails_fails_its_row_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Machine(failing={("xla", "1 device")}).selftest(monkeypatch, only=("dense", "xla"))
    assert [verdict for (name, _), verdict in verdicts(report.results).items() if name == "xla"] == 2 * ["failed"]
    assert [verdict for (name, _), verdict in verdicts(report.results).items() if name == "dense"] == 2 * ["passed"]


def test_what_is_not_run_when_the_time_is_up_is_not_said_to_have_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Machine(up_after=5).selftest(monkeypatch, only=("dense", "copies"), timeout=60.0)
    assert verdicts(report.results) == {
        ("copies", "2 logical devices"): "passed",
        ("copies", "2 workers"): "passed",
        ("dense", "2 logical devices"): "passed",
        ("dense", "2 workers"): "skipped",
    }
    assert report.code == 4
    assert report.results[-1].reason == "the 60 s of --timeout are over"


def test_what_was_done_when_the_time_was_up_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Machine(up_in=("dense", "2 logical devices"))
    report = fake.selftest(monkeypatch, only=("dense", "masks"), nproc=2)
    assert list(verdicts(report.results).values()) == ["passed", "skipped", "skipped", "skipped"]
    assert verdicts(report.results)["dense", "2 logical devices"] == "passed"


def test_broken_copies_between_gpus_come_with_what_works(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Machine(gpus=2, wrong={("copies", "2 workers")})
    report = fake.selftest(monkeypatch, only=("copies",))
    assert report.code == 6
    assert report.results[1].reason.endswith(
        "Train with --nproc 2 and NCCL_P2P_DISABLE=1 in the environment: that works here."
    )
    assert fake.asked[-1] == (
        ("copies",),
        "2 workers",
        {"communication": None, "variables": {"NCCL_P2P_DISABLE": "1"}, "seconds": 90.0},
    )


def test_a_broken_pair_leads_to_workers_that_work(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Machine(gpus=2, failing={("copies", "2 devices")})
    report = fake.selftest(monkeypatch, only=("copies",))
    assert report.code == 4
    assert report.results[0].reason == "exit code 4: it crashed. Train with --nproc 2: that works here."
    assert len(fake.asked) == 2


def test_no_way_around_is_looked_for_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Machine(wrong={("copies", "2 workers")})
    assert fake.selftest(monkeypatch, only=("copies",)).code == 6
    assert len(fake.asked) == 2


def test_workers_share_one_gpu_and_the_report_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Machine(gpus=1).selftest(monkeypatch, only=("dense",))
    assert {label for _, label in verdicts(report.results)} == {"2 logical devices", "2 workers on 1 GPU"}
    # As the machine of these tests has an older NCCL.
    assert "2 workers on 1 GPU (--share-gpu) exchange over the ring, as NCCL 2.27.3" in report.notes[1]


def test_no_way_around_is_looked_for_on_one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Machine(gpus=1, wrong={("copies", "2 workers on 1 GPU")})
    assert fake.selftest(monkeypatch, only=("copies",)).code == 6
    assert len(fake.asked) == 2


def test_gpus_may_be_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFDIST_EMULATE_GPUS", "nccl,count=1")
    report = Machine().selftest(monkeypatch, only=("dense",))
    assert {label for _, label in verdicts(report.results)} == {"2 logical devices", "2 workers on 1 GPU"}


def test_without_the_time_of_one_device_there_is_no_scaling(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Machine(failing={("speed", "1 device")}).selftest(monkeypatch, only=("speed",))
    assert report.code == 4
    assert verdicts(report.results)["speed", "1 device"] == "failed"
    assert verdicts(report.results)["speed", "2 workers"] == ComparisonVerdict.PASSED.value
    assert [time.scaling for time in report.times] == [None, None]
