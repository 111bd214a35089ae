"""All attempts of a job, with fake workers and a fake clock."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.launch.fakes import Stage, assignments, beat, stage
from tfdist.launch.attempt import Outcome
from tfdist.launch.events import Ended, GiveUp, Hold, Restart, Stop, StopAsked
from tfdist.launch.failures import Failure, from_signal
from tfdist.launch.group import Group
from tfdist.launch.phases import Phase

KILLED = -signal.SIGKILL
RUNNING, STOPPING, RESTARTING = Phase.RUNNING, Phase.STOPPING, Phase.RESTARTING


@dataclasses.dataclass
class Story:
    """One job."""

    outcome: Outcome
    phases: list[tuple[Phase, int]]
    told: list[Restart]
    place: Stage


def tell_story(place: Stage, max_restarts: int = 0, diagnose: Any = None) -> Story:
    phases: list[tuple[Phase, int]] = []
    told: list[Restart] = []
    around = place.surroundings()
    if diagnose is not None:
        around = dataclasses.replace(around, diagnose=diagnose)
    group = Group(
        assignments(len(place.workers[0]), len(place.control.remote)),
        around,
        max_restarts,
        lambda outcome, restart: told.append(restart),
        lambda phase, attempt: phases.append((phase, attempt)),
    )
    with place.signals:
        return Story(group.run(), phases, told, place)


def dies(at_step: int = 0, limit: float | None = None) -> dict[str, Any]:
    """A worker that is killed two seconds after it began, at a step."""
    return {"says": [(0.0, beat(at_step, limit=limit))], "ends": (0.0, KILLED)}


DONE = {"says": [(0.0, {"finished": 0})]}


def test_a_job_that_goes_well_runs_once() -> None:
    story = tell_story(stage([DONE, DONE]), 3)
    assert story.outcome == Outcome(0)
    assert story.phases == [(RUNNING, 0), (STOPPING, 0), (Phase.DONE, 0)]


def test_without_restarts_the_first_failure_is_the_last() -> None:
    story = tell_story(stage([dies(), {}]))
    assert story.outcome.code == 4
    assert story.outcome.advice == ""
    assert story.phases[-1] == (Phase.FAILED, 0)


def test_all_workers_start_again() -> None:
    story = tell_story(stage([dies(3), {}], [DONE, DONE]), 1)
    assert story.outcome.code == 0
    assert story.phases == [(RUNNING, 0), (STOPPING, 0), (RESTARTING, 0), (RUNNING, 1), (STOPPING, 1), (Phase.DONE, 1)]
    assert [restart.attempt for restart in story.told] == [1]
    assert [worker.heard for worker in story.place.workers[0]][1] == ["TERM", "close"]


def test_only_restarts_without_progress_count() -> None:
    steps = [5, 9, 20, 21]
    story = tell_story(stage(*([dies(step)] for step in steps), [DONE]), 1)
    assert story.outcome.code == 0
    assert [restart.delay for restart in story.told] == [1, 1, 1, 1]


def test_the_delay_grows_and_the_count_ends() -> None:
    story = tell_story(stage(*([dies(5)] for _ in range(5))), 3)
    assert story.outcome.code == 4
    assert [restart.delay for restart in story.told] == [1, 2, 4]
    assert "3 times without any progress" in story.outcome.advice
    assert story.phases[-1] == (Phase.FAILED, 3)


def exception(kind: str = "exception", step: int = 7) -> Any:
    def diagnose(worker: Any, code: int) -> Failure | None:
        if worker.ended_by_launcher:
            return None
        return Failure(worker.index, "h", 0.0, kind, "boom", type="ValueError", step=step)  # type: ignore[arg-type]

    return diagnose


@pytest.mark.parametrize("kind", ["usage", "data", "start"])
def test_what_would_fail_again_is_not_tried_again(kind: str) -> None:
    story = tell_story(stage([dies()]), 3, exception(kind))
    assert story.told == []
    assert "fail in the same way" in story.outcome.advice


def test_an_exception_at_the_same_step_twice_is_enough() -> None:
    story = tell_story(stage(*([dies(7)] for _ in range(3))), 9, exception())
    assert len(story.told) == 1
    assert "ValueError came at the same step twice" in story.outcome.advice


@pytest.mark.parametrize("leads", [True, False])
def test_a_signal_during_the_delay_ends_the_job(leads: bool) -> None:
    script = [] if leads else [(0.2, Restart(1, 5.0, ""))]
    place = stage([dies()], leads=leads, remote=(1,), script=script, signals_at=[(0.7, signal.SIGTERM)])
    story = tell_story(place, 3)
    assert story.phases == [(RUNNING, 0), (STOPPING, 0), (RESTARTING, 0), (Phase.FAILED, 1)]
    assert story.outcome.code == 143
    assert place.control.told[-1] == Ended(stop=story.outcome.stop)


def test_a_follower_does_as_the_leader_says() -> None:
    again = stage([dies()], [{}], leads=False, remote=(1,), script=[(1.0, Restart(1, 1.0, "")), (9.0, Ended(STOPPED))])
    story = tell_story(again)
    assert [attempt for _, attempt in story.phases] == [0, 0, 0, 1, 1, 1]
    enough = tell_story(stage([dies()], leads=False, remote=(1,), script=[(1.0, GiveUp("why"))]))
    assert enough.outcome.advice == "why"


def test_a_follower_whose_leader_says_nothing_gives_up() -> None:
    story = tell_story(stage([dies()], leads=False, remote=(1,)))
    assert story.outcome.code == 4
    assert story.place.clock.now < 60


STOPPED = (from_signal(1, 9),)
STOP = Stop(143, "SIGTERM to the launcher on b")


@pytest.mark.parametrize(
    ("event", "code"), [(StopAsked(STOP), 143), (Hold(STOP), 143), (Ended(stop=STOP), 143), (Ended(STOPPED), 4)]
)
def test_what_other_launchers_say_during_the_delay_counts(event: Any, code: int) -> None:
    story = tell_story(stage([dies()], remote=(1,), script=[(0.5, event)]), 3)
    assert story.outcome.code == code
    assert story.phases[-1][0] is Phase.FAILED


def test_the_leader_tells_of_each_restart() -> None:
    place = stage([dies()], [dies()], remote=(1,))
    story = tell_story(place, 1)
    verdicts: Sequence[Any] = [event for event in place.control.told if isinstance(event, Restart | GiveUp)]
    assert [type(verdict) for verdict in verdicts] == [Restart, GiveUp]
    assert story.outcome.code == 4
