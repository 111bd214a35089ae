"""All attempts of a job, with fake workers and a fake clock."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Sequence
from typing import Any

import pytest

from tests.helpers.launch_fakes import Stage, assignments, beat, stage
from tfdist.launch.agent.exit_diagnosis import from_signal
from tfdist.launch.agent.group_policy import RestartPolicy
from tfdist.launch.agent.worker_group import WorkerGroup
from tfdist.launch.job_phases import JobLifecycle, JobPhase
from tfdist.launch.peers.messages import AttemptEnded, GiveUp, Hold, Restart, Stop, Stopped, StopRequested, WorkerDone
from tfdist.launch.run_result import RunResult
from tfdist.rundir.failure import Failure

KILLED = -signal.SIGKILL
RUNNING, STOPPING, RESTARTING = JobPhase.RUNNING, JobPhase.STOPPING, JobPhase.RESTARTING


@dataclasses.dataclass
class ScriptedJob:
    """A job that has ended."""

    result: RunResult
    phases: list[tuple[JobPhase, int]]
    told: list[Restart]
    scene: Stage


def run_group(scene: Stage, max_restarts: int = 0, diagnose: Any = None, judge: Any = None) -> ScriptedJob:
    phases: list[tuple[JobPhase, int]] = []
    told: list[Restart] = []
    dependencies = scene.dependencies()
    life = JobLifecycle()
    life.enter(JobPhase.FORMING)
    life.call(lambda phase, attempt: phases.append((phase, attempt)))
    if diagnose is not None:
        dependencies = dataclasses.replace(dependencies, diagnose=diagnose)
    if judge is not None:
        dependencies = dataclasses.replace(dependencies, judge_stop=judge)
    group = WorkerGroup(
        assignments(len(scene.workers[0]), len(scene.coordinator.remote)),
        dependencies,
        life,
        RestartPolicy(max_restarts),
        lambda result, restart: told.append(restart),
    )
    with scene.signals:
        return ScriptedJob(group.run(), phases, told, scene)


def dies(at_step: int = 0, limit: float | None = None) -> dict[str, Any]:
    """A worker that is killed two seconds after it began, at a step."""
    return {"says": [(0.0, beat(at_step, limit=limit))], "ends": (0.0, KILLED)}


DONE = {"says": [(0.0, {"finished": 0})]}
STOP = Stop(143, "SIGTERM to the launcher on b")
LOST = (Failure(1, "b", 0.0, "lost", "the launcher of worker(s) 1 is gone"),)


def test_a_job_without_failures_runs_once() -> None:
    job = run_group(stage([DONE, DONE]), 3)
    assert job.result == RunResult(0)
    assert job.phases == [(RUNNING, 0), (STOPPING, 0), (JobPhase.DONE, 0)]


def test_without_restarts_a_failure_ends_the_job() -> None:
    job = run_group(stage([dies(), {}]))
    assert job.result.code == 4
    assert job.result.advice == ""
    assert job.phases[-1] == (JobPhase.FAILED, 0)


def test_all_workers_are_restarted() -> None:
    job = run_group(stage([dies(3), {}], [DONE, DONE]), 1)
    assert job.result.code == 0
    assert job.phases == [
        (RUNNING, 0),
        (STOPPING, 0),
        (RESTARTING, 0),
        (RUNNING, 1),
        (STOPPING, 1),
        (JobPhase.DONE, 1),
    ]
    assert [restart.attempt for restart in job.told] == [1]
    assert [worker.heard for worker in job.scene.workers[0]][1] == ["TERM", "close"]


def test_only_restarts_without_progress_count() -> None:
    steps = [5, 9, 20, 21]
    job = run_group(stage(*([dies(step)] for step in steps), [DONE]), 1)
    assert job.result.code == 0
    assert [restart.delay for restart in job.told] == [1, 1, 1, 1]


def test_the_delay_grows_and_the_count_is_bounded() -> None:
    job = run_group(stage(*([dies(5)] for _ in range(5))), 3)
    assert job.result.code == 4
    assert [restart.delay for restart in job.told] == [1, 2, 4]
    assert "3 times without any progress" in job.result.advice
    assert job.phases[-1] == (JobPhase.FAILED, 3)


def exception(kind: str = "exception", step: int = 7) -> Any:
    def diagnose(worker: Any, code: int) -> Failure | None:
        if worker.ended_by_launcher:
            return None
        return Failure(worker.index, "h", 0.0, kind, "boom", type="ValueError", step=step)  # type: ignore[arg-type]

    return diagnose


@pytest.mark.parametrize("kind", ["usage", "data", "start"])
def test_failures_that_would_come_again_are_not_restarted(kind: str) -> None:
    job = run_group(stage([dies()]), 3, exception(kind))
    assert job.told == []
    assert "fail in the same way" in job.result.advice


def test_an_exception_at_the_same_step_twice_ends_the_job() -> None:
    job = run_group(stage(*([dies(7)] for _ in range(3))), 9, exception())
    assert len(job.told) == 1
    assert "ValueError came at the same step twice" in job.result.advice


@pytest.mark.parametrize("leads", [True, False])
def test_a_signal_during_the_delay_ends_the_job(leads: bool) -> None:
    script = [] if leads else [(0.2, Restart(1, 5.0, ""))]
    scene = stage([dies()], leads=leads, remote=(1,), script=script, signals_at=[(0.7, signal.SIGTERM)])
    job = run_group(scene, 3)
    assert job.phases == [(RUNNING, 0), (STOPPING, 0), (RESTARTING, 0), (JobPhase.FAILED, 1)]
    assert job.result.code == 143
    assert AttemptEnded(stop=job.result.stop) in scene.coordinator.told
    assert (scene.coordinator.told[-1] == Stopped(job.result.stop)) == leads


def test_a_follower_obeys_the_leader() -> None:
    again = stage(
        [dies()], [{}], leads=False, remote=(1,), script=[(1.0, Restart(1, 1.0, "")), (9.0, AttemptEnded(LOST))]
    )
    job = run_group(again)
    assert [attempt for _, attempt in job.phases] == [0, 0, 0, 1, 1, 1]
    enough = run_group(stage([dies()], leads=False, remote=(1,), script=[(1.0, GiveUp("why"))]))
    assert enough.result.advice == "why"


def test_a_follower_whose_leader_is_silent_gives_up() -> None:
    job = run_group(stage([dies()], leads=False, remote=(1,)), 3)
    assert job.result.code == 4
    assert "does not say" in job.result.advice
    assert job.scene.clock.now < 60


def test_a_follower_does_not_wait_for_a_leader_that_is_gone() -> None:
    scene = stage([dies()], leads=False, remote=(1,))
    scene.coordinator.gone_at = 1.0
    job = run_group(scene)
    assert (job.result.code, job.result.advice) == (4, "")
    assert scene.clock.now < 2


@pytest.mark.parametrize(("verdict", "code"), [(Restart(1, 5.0, ""), 143), (GiveUp(""), 4)])
def test_a_signal_to_a_waiting_follower_is_sent_to_the_leader(verdict: Any, code: int) -> None:
    script = [(3.0, verdict)]
    scene = stage([dies()], leads=False, remote=(1,), script=script, signals_at=[(2.0, signal.SIGTERM)])
    job = run_group(scene, 3)
    assert job.result.code == code
    stops = [event.stop for event in scene.coordinator.told if isinstance(event, StopRequested)]
    assert [stop.code for stop in stops] == [143]
    # All launchers stop, so the leader is told in any case.
    assert (scene.coordinator.told[-1] == AttemptEnded(stop=job.result.stop)) == (code == 143)


def test_the_second_signal_does_not_wait_for_the_verdict() -> None:
    signals_at = [(1.0, signal.SIGINT), (2.0, signal.SIGINT)]
    job = run_group(stage([dies()], leads=False, remote=(1,), signals_at=signals_at))
    assert job.result.code == 4
    assert job.scene.clock.now < 3


@pytest.mark.parametrize("event", ["held", "ended"])
def test_a_follower_stops_when_the_leader_was_stopped_meanwhile(event: str) -> None:
    stopping = Hold(STOP) if event == "held" else AttemptEnded(stop=STOP)
    job = run_group(stage([dies()], leads=False, remote=(1,), script=[(1.0, stopping)]))
    assert (job.result.code, job.result.stop) == (143, STOP)
    assert [failure.index for failure in job.result.failures] == [0]


JUDGED = Stop(4, STOP.why, "requeued too often")


def test_the_leader_judges_a_stop_and_tells_the_others() -> None:
    asked: list[tuple[Stop, int]] = []

    def judge(stop: Stop, step: int) -> Stop:
        asked.append((stop, step))
        return JUDGED

    script = [(1.0, StopRequested(STOP))]
    scene = stage([{"says": [(0.0, beat(7))]}], remote=(1,), script=script)
    job = run_group(scene, judge=judge)
    assert (job.result.code, job.result.stop, asked) == (4, JUDGED, [(STOP, 7)])
    assert scene.coordinator.told[-1] == Stopped(JUDGED)


def test_ctrl_c_is_not_judged() -> None:
    scene = stage([{}], remote=(1,), script=[(1.0, StopRequested(Stop(130, "Ctrl-C")))])
    job = run_group(scene, judge=lambda stop, step: JUDGED)
    assert job.result.code == 130
    assert not any(isinstance(event, Stopped) for event in scene.coordinator.told)


@pytest.mark.parametrize("at", [1.0, 4.0])
def test_a_follower_ends_a_stop_as_the_leader_does(at: float) -> None:
    """Whether it hears of that while its own workers end, or only afterwards."""
    script = [(1.0, AttemptEnded(stop=STOP)), (at, Stopped(JUDGED))]
    job = run_group(stage([{}], leads=False, remote=(1,), script=script))
    assert (job.result.code, job.result.stop) == (4, JUDGED)


@pytest.mark.parametrize(("gone_at", "most"), [(1.5, 5.0), (1e9, 60.0)])
def test_a_follower_that_does_not_hear_how_a_stop_ends_ends_it_by_itself(gone_at: float, most: float) -> None:
    scene = stage([{}], leads=False, remote=(1,), script=[(1.0, AttemptEnded(stop=STOP))])
    scene.coordinator.gone_at = gone_at
    job = run_group(scene)
    assert (job.result.code, job.result.stop) == (143, STOP)
    assert scene.clock.now < most


def test_events_after_the_verdict_belong_to_the_next_attempt() -> None:
    """The leader was stopped right after it had announced a restart, and hung up."""
    script = [(1.0, Restart(1, 1.0, "")), (1.0, AttemptEnded(stop=STOP))]
    job = run_group(stage([dies()], leads=False, remote=(1,), script=script))
    assert (job.result.code, job.result.stop) == (143, STOP)


def test_a_failure_of_a_faster_launchers_next_attempt_counts() -> None:
    """Its delay ended a little earlier than this launcher's."""
    scene = stage([dies()], [{}], [DONE], remote=(1,), script=[(0.5, AttemptEnded((from_signal(1, 9),)))])
    scene.coordinator.script.append((4.0, WorkerDone(1, 0, False)))
    job = run_group(scene, 3)
    assert job.result.code == 0
    assert [attempt for phase, attempt in job.phases if phase is RUNNING] == [0, 1, 2]
    assert scene.workers[1][0].heard == ["TERM", "close"]


@pytest.mark.parametrize(
    ("event", "code"),
    [(StopRequested(STOP), 143), (Hold(STOP), 143), (AttemptEnded(stop=STOP), 143), (AttemptEnded(LOST), 4)],
)
def test_events_during_the_delay_count(event: Any, code: int) -> None:
    job = run_group(stage([dies()], remote=(1,), script=[(0.5, event)]), 3)
    assert job.result.code == code
    assert job.phases[-1][0] is JobPhase.FAILED


@pytest.mark.parametrize(("leads", "event"), [(True, StopRequested(STOP)), (False, Hold(STOP))])
def test_a_stop_that_comes_with_the_end_of_an_attempt_counts(leads: bool, event: Any) -> None:
    """Both may be read at once, or the stop a moment later."""
    script = [(1.0, AttemptEnded((from_signal(1, 9),))), (1.0, event)]
    script += [(9.0, WorkerDone(1, 0, False)), (9.0, WorkerDone(2, 0, False))]
    scene = stage([{}], [DONE], leads=leads, remote=(1, 2), script=script)
    job = run_group(scene, 3)
    assert job.result.code == 143
    assert [attempt for phase, attempt in job.phases if phase is RUNNING] == [0]


def test_messages_of_remote_workers_after_the_end_of_an_attempt_are_dropped() -> None:
    script = [
        (1.0, AttemptEnded((from_signal(1, 9),))),
        (1.0, AttemptEnded((from_signal(2, 9),))),
        (1.0, WorkerDone(1, 3, True)),
    ]
    script += [(9.0, WorkerDone(1, 0, False)), (9.0, WorkerDone(2, 0, False))]
    job = run_group(stage([{}], [DONE], remote=(1, 2), script=script), 3)
    assert job.result.code == 0
    assert [attempt for phase, attempt in job.phases if phase is RUNNING] == [0, 1]


def test_the_leader_announces_each_restart() -> None:
    scene = stage([dies()], [dies()], remote=(1,))
    job = run_group(scene, 1)
    verdicts: Sequence[Any] = [event for event in scene.coordinator.told if isinstance(event, Restart | GiveUp)]
    assert [type(verdict) for verdict in verdicts] == [Restart, GiveUp]
    assert job.result.code == 4
