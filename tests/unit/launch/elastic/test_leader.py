"""The chief's launcher of an elastic job whose other hosts never come: what it makes of each generation."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.ports import free_ports
from tfdist.cluster.cluster_spec import Cluster
from tfdist.cluster.membership import Membership
from tfdist.errors import FormingError, RunDirError
from tfdist.launch.agent import group_policy
from tfdist.launch.elastic import leader
from tfdist.launch.elastic.elastic_options import ElasticOptions
from tfdist.launch.elastic.gathering import Gathering
from tfdist.launch.elastic.generation import JobSteps
from tfdist.launch.elastic.leader import ElasticLeader
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.peers.messages import Stop
from tfdist.launch.run_result import RunResult
from tfdist.launch.signals import LauncherStopped, Signals
from tfdist.rundir.failure import Failure


@pytest.fixture(autouse=True)
def _without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_policy, "FIRST_DELAY_SECONDS", 0.001)


Act = Callable[[Signals], RunResult]


class Chief:
    """Runs the part with these acts as its generations, one after the other."""

    def __init__(self, *acts: Act, **options: Any) -> None:
        self.ran: list[JobSpec] = []
        self.said: list[str] = []
        self.reported: list[RunResult] = []
        self.signals = Signals()
        self._acts = list(acts)
        cluster = Cluster.parse(f"192.0.2.9:{free_ports(1)[0]},192.0.2.1:20000")
        elastic = ElasticOptions(options.pop("least", 1), rejoin_timeout=0.1)
        self.spec = JobSpec(
            Membership(cluster, (0,)), "script", "train.py", elastic=elastic, start_timeout=0.2,
            **{"max_restarts": 3, **options},
        )  # fmt: skip

    def run(self) -> int:
        def report(spec: JobSpec, result: RunResult) -> None:
            self.reported.append(result)

        def run(spec: JobSpec, signals: Signals) -> RunResult:
            self.ran.append(spec)
            return self._acts.pop(0)(signals)

        with self.signals:
            options = self.spec.elastic
            assert options is not None
            return ElasticLeader(self.spec, options, JobSteps(run, report, self.said.append), self.signals).run()


def fails(kind: Any, run_dir: str | None = "run") -> Act:
    failure = Failure(0, "a", time.time(), kind, "it failed", step=1)
    return lambda signals: RunResult(4, (failure,), run_dir=run_dir)


def done(signals: Signals) -> RunResult:
    return RunResult(0, run_dir="run")


def does_not_form(code: int) -> Act:
    def act(signals: Signals) -> RunResult:
        error = FormingError("not all came")
        error.exit_code = code
        raise error

    return act


@pytest.mark.parametrize("options", [{"overwrite": True}, {"resume": "must"}, {"resume": "never"}])
def test_what_was_asked_of_the_run_directory_holds_until_there_is_one(options: dict[str, Any]) -> None:
    chief = Chief(does_not_form(3), fails("signal"), done, run_dir="there", **options)
    assert chief.run() == 0
    asked = [(spec.overwrite, spec.resume, spec.goes_on) for spec in chief.ran]
    first = (chief.spec.overwrite, chief.spec.resume, False)
    assert asked == [first, first, (False, "auto", True)]
    assert [spec.run_dir for spec in chief.ran] == ["there", "there", "run"]


def test_what_another_host_refuses_is_not_tried_again() -> None:
    chief = Chief(does_not_form(2))
    with pytest.raises(FormingError):
        chief.run()
    assert len(chief.ran) == 1


def test_a_stop_to_take_others_in_begins_a_generation_and_others_end_the_job() -> None:
    def grows(signals: Signals) -> RunResult:
        signals.ask("to take in b (--grow)")
        return RunResult(143, stop=Stop(143, "to take in b (--grow)"), run_dir="run")

    def is_stopped_meanwhile(signals: Signals) -> RunResult:
        signals.ask("to take in b (--grow)")
        return RunResult(130, stop=Stop(130, "Ctrl-C, SIGINT to the launcher on b"), run_dir="run")

    chief = Chief(grows, is_stopped_meanwhile)
    assert chief.run() == 130
    assert [result.code for result in chief.reported] == [130]


def test_a_signal_that_comes_while_others_are_taken_in_is_what_the_job_ends_by() -> None:
    def grows(signals: Signals) -> RunResult:
        signals.ask("to take in b (--grow)")
        signals.received.append(2)
        return RunResult(143, stop=Stop(143, "to take in b (--grow)"), run_dir="run")

    chief = Chief(grows)
    assert chief.run() == 130
    assert chief.reported[0].stop is not None
    assert "SIGINT" in chief.reported[0].stop.why


def test_a_failure_while_others_are_taken_in_is_told_and_counted() -> None:
    def grows(signals: Signals) -> RunResult:
        signals.ask("to take in b (--grow)")
        failure = Failure(0, "a", time.time(), "exception", "boom", type="ValueError")
        return RunResult(143, (failure,), Stop(143, "to take in b (--grow)"), run_dir="run")

    chief = Chief(grows)
    assert chief.run() == 143
    assert chief.reported[0].failures


def test_restarts_are_counted_over_generations() -> None:
    chief = Chief(*[fails("signal")] * 3, max_restarts=2)
    assert chief.run() == 4
    assert len(chief.ran) == 3
    assert "restarted 2 times without any progress" in chief.reported[-1].advice


def test_an_error_ends_the_job_and_its_phase(tmp_path: Path) -> None:
    def refuses(signals: Signals) -> RunResult:
        raise RunDirError("no room")

    chief = Chief(refuses, run_dir=str(tmp_path))
    with pytest.raises(RunDirError):
        chief.run()


def test_a_signal_between_generations_ends_the_job() -> None:
    def is_signalled(signals: Signals) -> RunResult:
        signals.received.append(15)
        return fails("signal")(signals)

    with pytest.raises(LauncherStopped):
        Chief(is_signalled, done).run()


class Present(Chief):
    """As if the other host were there whenever a generation begins."""

    def run(self) -> int:
        def present(gathering: Gathering, *, also_out: bool = False) -> tuple[int, ...]:
            return (0,) if gathering._is_out([1]) and not also_out else (0, 1)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Gathering, "present", present)
            patch.setattr(leader, "FIRST_DELAY_SECONDS", 0.001)
            return super().run()


def loses_the_other(signals: Signals) -> RunResult:
    return RunResult(4, (Failure(1, "b", time.time(), "lost", "it is gone"),), run_dir="run")


def members_of(chief: Chief) -> list[int]:
    return [spec.membership.num_workers for spec in chief.ran]


def test_a_host_that_is_lost_again_and_again_ends_no_job_that_can_do_without_it() -> None:
    def grows(signals: Signals) -> RunResult:
        signals.ask("to take in b (--grow)")
        return RunResult(143, stop=Stop(143, "to take in b (--grow)"), run_dir="run")

    chief = Present(loses_the_other, grows, loses_the_other, fails("signal"), done, max_restarts=1)
    assert chief.run() == 0
    # It stays out from its second loss on; what fails by itself is counted.
    assert members_of(chief) == [2, 2, 2, 1, 1]
    assert any("b was lost 2 times without a step in between: it stays out for 30 s" in said for said in chief.said)
    assert any("counts as no restart" in said for said in chief.said)


def test_a_host_without_which_too_few_are_left_is_taken_as_often_as_there_are_restarts() -> None:
    chief = Present(*[loses_the_other] * 3, least=2, max_restarts=2)
    assert chief.run() == 4
    assert members_of(chief) == [2, 2, 2]
