"""The group with fake workers and a fake clock: every story in milliseconds."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tfdist.launch.control import Done, Ended, Event, Released, Stop
from tfdist.launch.environment import Assignment
from tfdist.launch.failures import Failure, first_to_last, from_signal
from tfdist.launch.group import KILL_SECONDS, LEAVE_SECONDS, TERM_SECONDS, Group, Outcome, Phase
from tfdist.launch.signals import Signals
from tfdist.launch.worker import Worker

ABORT = -signal.SIGABRT


class Clock:
    """Time passes only while somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def wait(self, sources: Sequence[object], seconds: float) -> None:
        assert 0 < seconds <= 1
        self.now += seconds


@dataclasses.dataclass
class FakeWorker:
    """Says what `says` has for the time, ends as `ends` has; None for a worker that only a signal ends."""

    index: int
    clock: Clock
    says: tuple[float, int] | None = None
    ends: tuple[float, int] | None = None
    obeys_term: bool = True
    leaves: bool = True
    address: str | None = None
    log: Path = Path("log")
    ended_by_launcher: bool = False
    pid: int = 1
    heard: list[str] = dataclasses.field(default_factory=list)
    exit: int | None = None

    def fileno(self) -> int:
        return -1

    def reported(self) -> int | None:
        if self.says is not None and self.clock.now >= self.says[0]:
            code, self.says = self.says[1], None
            return code
        return None

    def release(self) -> None:
        self.heard.append("release")
        if self.leaves and self.exit is None:
            self.ends = (self.clock.now, 0)

    def poll(self) -> int | None:
        if self.exit is None and self.ends is not None and self.clock.now >= self.ends[0]:
            self.exit = self.ends[1]
        return self.exit

    def terminate(self) -> None:
        if self.exit is None:
            self.heard.append("TERM")
            self.ended_by_launcher = True
            if self.obeys_term:
                self.exit = -signal.SIGTERM

    def kill(self) -> None:
        if self.exit is None:
            self.heard.append("KILL")
            self.ended_by_launcher = True
            self.exit = -signal.SIGKILL

    def last_lines(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        self.heard.append("close")


class FakeControl:
    """The other launchers, whose events come at their times."""

    def __init__(
        self, clock: Clock, leads: bool, remote: tuple[int, ...], script: Sequence[tuple[float, Event]]
    ) -> None:
        self.clock, self.leads, self.remote, self.script = clock, leads, remote, list(script)
        self.told: list[Event] = []

    def sockets(self) -> Sequence[object]:
        return ()

    def events(self) -> list[Event]:
        due = [event for time, event in self.script if self.clock.now >= time]
        self.script = [(time, event) for time, event in self.script if self.clock.now < time]
        return due

    def tell(self, event: Event) -> None:
        self.told.append(event)

    def settle(self, failures: Sequence[Failure], timeout: float) -> tuple[Failure, ...]:
        return first_to_last(failures)

    def close(self) -> None:
        pass


@dataclasses.dataclass
class Story:
    """One group's run."""

    outcome: Outcome
    control: FakeControl
    workers: list[FakeWorker]
    seconds: float
    phase: Phase


def tell_story(
    *workers: dict[str, object],
    leads: bool = True,
    remote: tuple[int, ...] = (),
    script: Sequence[tuple[float, Event]] = (),
    signals_at: Sequence[tuple[float, int]] = (),
) -> Story:
    clock = Clock()
    fakes = [FakeWorker(index, clock, **fields) for index, fields in enumerate(workers)]  # type: ignore[arg-type]
    control = FakeControl(clock, leads, remote, script)
    signals = Signals()

    def wait(sources: Sequence[object], seconds: float) -> None:
        clock.wait(sources, seconds)
        due = sum(clock.now >= time for time, _ in signals_at)
        signals.received[:] = [number for _, number in signals_at[:due]]

    def diagnose(worker: Worker, code: int) -> Failure | None:
        return from_signal(worker.index, -code) if code < 0 and not worker.ended_by_launcher else None

    total = len(workers) + len(remote)
    cluster = ",".join(f"127.0.0.1:{20000 + i}" for i in range(total)) if total > 1 else None
    assignments = [
        Assignment("/r", 0, index, total, "script", "x.py", cluster=cluster) for index in range(len(workers))
    ]
    group = Group(assignments, lambda a: fakes[a.index], diagnose, control, signals, clock, wait)
    with signals:
        outcome = group.run()
    return Story(outcome, control, fakes, clock.now, group.phase)


DONE = {"says": (1.0, 0)}
HANGS = {"obeys_term": False}


@pytest.mark.parametrize(
    ("workers", "code"),
    [
        ([DONE], 0),
        ([DONE, {"says": (50.0, 0)}], 0),
        ([{"says": (1.0, 3)}, {"says": (4.0, 3)}], 3),
        ([{"ends": (1.0, 3)}], 3),  # os._exit in a script: nothing was said
        ([{"ends": (1.0, 3)}, {"ends": (2.0, 3)}], 3),
    ],
)
def test_workers_that_agree_leave_together(workers: list[dict[str, object]], code: int) -> None:
    story = tell_story(*workers)
    assert story.outcome == Outcome(code)
    assert story.phase is Phase.OVER
    for worker in story.workers:
        assert worker.heard[-1] == "close"
        assert "TERM" not in worker.heard


@pytest.mark.parametrize(
    ("workers", "culprit", "seconds"),
    [
        ([{}, {"ends": (1.0, ABORT)}], 1, 1.0),
        ([DONE, {"ends": (3.0, ABORT)}], 1, 3.0),
        ([{"says": (1.0, 3)}, {}], 0, 6.0),  # nobody follows within 5 s
        ([{"ends": (1.0, 0)}, {}], 0, 6.0),
        ([{"says": (1.0, 0), "ends": (2.0, 0)}, {}], 0, 6.0),  # did not wait for its release
        ([{"says": (1.0, 0)}, {"says": (2.0, 1)}], 1, 2.0),
    ],
)
def test_a_failure_ends_the_others(workers: list[dict[str, object]], culprit: int, seconds: float) -> None:
    story = tell_story(*workers)
    assert story.outcome.code == 4
    assert story.outcome.failures[0].index == culprit
    assert len(story.outcome.failures) == 1  # those that the launcher ended did not fail
    assert story.seconds < seconds + 1.5


def test_who_does_not_hear_term_is_killed_within_five_seconds() -> None:
    story = tell_story({"ends": (1.0, ABORT)}, HANGS, {})
    assert story.workers[1].heard == ["TERM", "KILL", "close"]
    assert story.workers[2].heard == ["TERM", "close"]
    assert story.seconds <= 1.0 + TERM_SECONDS + KILL_SECONDS + 0.5 <= 6.0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_everything(number: int, code: int) -> None:
    story = tell_story({}, HANGS, signals_at=[(2.0, number)])
    assert story.outcome.code == code
    assert story.outcome.stop is not None and signal.Signals(number).name in story.outcome.stop.why
    assert story.control.told == [Ended(stop=story.outcome.stop)]


def test_a_second_signal_does_not_wait_for_term() -> None:
    story = tell_story(HANGS, signals_at=[(2.0, signal.SIGINT), (2.5, signal.SIGINT)])
    assert story.outcome.code == 130
    assert story.seconds < 3.5


def test_a_released_worker_that_stays_is_ended_and_the_job_was_still_good() -> None:
    story = tell_story({**DONE, "leaves": False, "obeys_term": False})
    assert story.outcome == Outcome(0)
    assert story.workers[0].heard == ["release", "TERM", "KILL", "close"]
    assert LEAVE_SECONDS < story.seconds < LEAVE_SECONDS + 10


def test_a_worker_that_crashes_after_its_release_does_not_undo_the_job() -> None:
    story = tell_story({**DONE, "leaves": False, "ends": (1.5, ABORT)}, DONE)
    assert story.outcome == Outcome(0)


def test_a_worker_that_cannot_be_started_is_a_failure() -> None:
    def start(assignment: Assignment) -> Worker:
        raise OSError("no such interpreter")

    clock = Clock()
    assignment = Assignment("/r", 0, 0, 1, "script", "x.py")
    with Signals() as signals:
        control = FakeControl(clock, True, (), ())
        outcome = Group([assignment], start, lambda *_: None, control, signals, clock, clock.wait).run()
    assert outcome.code == 4
    assert "no such interpreter" in outcome.failures[0].message


def test_the_leader_waits_for_remote_workers_and_releases_all() -> None:
    story = tell_story(DONE, remote=(1,), script=[(5.0, Done(1, 0, False))])
    assert story.outcome == Outcome(0)
    assert story.control.told == [Released(0)]
    assert story.seconds >= 5


@pytest.mark.parametrize("script", [[(2.0, Done(1, 3, False))], [(2.0, Done(1, 0, True))]])
def test_a_remote_worker_that_leaves_early_fails_the_job_whatever_its_launcher_says(
    script: list[tuple[float, Event]],
) -> None:
    story = tell_story({} if script[0][1].gone else DONE, remote=(1,), script=script)  # type: ignore[union-attr]
    assert story.outcome.code == 4
    assert [failure.index for failure in story.outcome.failures] == [1]


def test_a_follower_tells_and_waits_for_the_release() -> None:
    story = tell_story(DONE, leads=False, remote=(1,), script=[(5.0, Released(0))])
    assert story.outcome == Outcome(0)
    assert story.control.told == [Done(0, 0, False)]
    assert story.seconds >= 5


def test_a_follower_does_not_judge_an_early_leaver_by_itself() -> None:
    blame = Ended(blamed=(0,))
    story = tell_story({"says": (1.0, 3)}, leads=False, remote=(1,), script=[(20.0, blame)])
    assert story.seconds >= 20
    assert story.outcome.failures[0].index == 0
    assert story.outcome.failures[0].kind == "exit"


def test_a_followers_failure_is_told_at_once() -> None:
    story = tell_story({"ends": (1.0, ABORT)}, HANGS, leads=False, remote=(2,))
    assert isinstance(story.control.told[0], Ended)
    assert story.control.told[0].failures[0].index == 0
    assert story.outcome.code == 4


def test_a_failure_elsewhere_ends_the_workers_here() -> None:
    elsewhere = from_signal(1, 6)
    story = tell_story({}, leads=False, remote=(1,), script=[(1.0, Ended((elsewhere,)))])
    assert story.outcome == Outcome(4, (elsewhere,))
    assert story.workers[0].heard == ["TERM", "close"]


def test_a_stop_elsewhere_stops_the_workers_here() -> None:
    stop = Stop(130, "Ctrl-C on host b")
    story = tell_story({}, remote=(1,), script=[(1.0, Ended(stop=stop))])
    assert story.outcome == Outcome(130, stop=stop)
