from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Iterable

import pytest

from tfdist.launch.agent.stragglers import Stragglers, WorkerLag, lags
from tfdist.rundir.state_records import State, WorkerState


def worker(index: int, step: int, busy: float, *, attempt: int = 0, state: State = State.STEP) -> WorkerState:
    return WorkerState(
        index, f"h{index}:20000", f"h{index}", 10, attempt, state, epoch=0, step=step, time=1.0 * step, busy=busy
    )


def at(step: int, *busy: float, attempt: int = 0) -> dict[int, WorkerState]:
    """All workers of a job at one step."""
    return {index: worker(index, step, seconds, attempt=attempt) for index, seconds in enumerate(busy)}


def observed(moments: Iterable[dict[int, WorkerState]]) -> list[tuple[int, str]]:
    """The messages, each with its step; a step takes a second."""
    stragglers = Stragglers()
    steps = ((max(s.step for s in states.values()), states) for states in moments)
    return [(step, said) for step, states in steps for said in stragglers.observe(states, now=step)]


@pytest.mark.parametrize(
    ("busy", "straggling"),
    [
        ((0.1, 0.1, 0.1), []),
        ((0.1, 0.1, 0.13), [2]),
        ((0.1, 0.1, 0.12), []),  # no more than 20 %
        ((0.1, 0.13), [1]),  # with two workers, against the other one
        ((0.1, 0.1, 0.2, 0.2), [2, 3]),
        ((0.1, 0.1, 0.2, 0.2, 0.2, 0.2), []),  # most are slow, so the slow ones are usual
        ((0.1, 0.5, 0.0), [1]),  # one whose time is unknown does not count
        ((0.1, 0.0), []),
        ((0.5,), []),
        ((), []),
    ],
)
def test_workers_slower_than_the_median_of_the_others(busy: tuple[float, ...], straggling: list[int]) -> None:
    assert [index for index, lag in lags(at(100, *busy).values()).items() if lag.is_straggling] == straggling


def test_workers_that_have_ended_or_of_an_earlier_attempt_are_not_compared() -> None:
    states = [worker(0, 5, 0.1), worker(1, 5, 0.1, state=State.FINISHED), worker(2, 5, 0.5)]
    assert lags(states)[2].others == 0.1 and 1 not in lags(states)
    assert lags([worker(0, 5, 0.1), worker(1, 5, 0.5, attempt=1)]) == {}


def test_cost_of_a_lag() -> None:
    lag = WorkerLag(1, busy=0.3, others=0.2)
    assert lag.cost == pytest.approx(0.1)
    assert lag.slower == pytest.approx(0.5)
    assert WorkerLag(1, busy=0.1, others=0.2).cost == 0
    with pytest.raises(ValueError, match="others=0"):
        WorkerLag(1, busy=0.1, others=0)


def test_a_straggler_is_reported_once_after_fifty_steps() -> None:
    said = observed(at(step, 0.2, 0.2, 0.3) for step in range(0, 300, 10))
    assert said == [
        (
            50,
            "worker 2 (h2) is a straggler: for 50 steps it has taken 300 ms a step, where the others take 200 ms, "
            "50 % more; every step of all workers waits 100 ms for it, 5 s so far",
        )
    ]


@pytest.mark.parametrize("pace", [1, 7, 49, 1000])
def test_states_at_any_intervals(pace: int) -> None:
    (step, message), *others = observed(at(step, 1.0, 1.5) for step in range(0, 10_000, pace))
    assert 50 <= step < 50 + pace or step == pace
    assert message.startswith("worker 1 (h1) is a straggler")
    assert others == []


def test_one_slow_step_is_no_straggler() -> None:
    """The mean of the last 50 steps is high for 50 steps after it."""
    assert observed(at(step, 0.1, 0.3 if 100 <= step < 150 else 0.1) for step in range(0, 400)) == []


def test_slow_steps_must_be_consecutive() -> None:
    assert observed(at(step, 0.1, 0.1 if step % 45 == 0 else 0.3) for step in range(0, 400, 5)) == []


def test_a_straggler_that_has_caught_up_is_reported_with_its_cost() -> None:
    said = observed(at(step, 1.0, 3.0 if step <= 200 else 1.0) for step in range(0, 400, 10))
    assert [step for step, _ in said] == [50, 260]
    assert said[1][1] == (
        "worker 1 (h1) is no straggler any more: it takes 1 s a step, where the others take 1 s; "
        "it has cost 6 min in 260 steps"
    )


@pytest.mark.parametrize(
    ("busy", "seconds", "first"),
    [
        ((0.1, 0.3), 1.0, 50),
        ((0.001, 0.003), 0.01, 500),  # first when it has cost a second in all
        ((0.1, 0.14), 1.0, None),  # most of a step is spent with something else, such as the collectives
        ((0.1, 0.16), 1.0, 50),
    ],
)
def test_only_what_costs_is_reported(busy: tuple[float, ...], seconds: float, first: int | None) -> None:
    stragglers = Stragglers()
    said = [step for step in range(0, 1000, 10) if stragglers.observe(at(step, *busy), now=step * seconds)]
    assert said == ([] if first is None else [first])


def test_nothing_is_said_twice_within_a_minute() -> None:
    """Slow for 40 s, then not, then slow again: what holds after a minute is said, and nothing in between."""
    stragglers = Stragglers()
    said = []
    for step in range(0, 2000, 10):
        now = step * 0.1
        for message in stragglers.observe(at(step, 0.05, 0.15 if now < 40 or now > 70 else 0.05), now):
            said.append((now, "no straggler" in message))
    assert [over for _, over in said] == [False, True, False]
    assert all(later[0] - earlier[0] >= 60 for earlier, later in itertools.pairwise(said))


def test_only_large_changes_are_reported() -> None:
    def busy(step: int) -> float:
        return 1.5 if step < 200 else 1.9 if step < 400 else 3.0 if step < 600 else 1.4

    said = observed(at(step, 1.0, busy(step)) for step in range(0, 800, 10))
    assert [step for step, _ in said] == [50, 450, 650]
    assert said[1][1] == (
        "worker 1 (h1) is still a straggler: it now takes 3 s a step, where the others take 1 s, 200 % more; "
        "every step of all workers waits 2 s for it, 6 min in 450 steps so far"
    )
    assert "waits 400 ms for it" in said[2][1]


def test_a_worker_around_the_limit_is_reported_less_and_less() -> None:
    said = observed(at(step, 1.0, 1.3 if step // 100 % 2 else 1.1) for step in range(0, 20_000, 10))
    assert 2 <= len(said) <= 4


def test_a_restart_resets_everything() -> None:
    stragglers = Stragglers()
    for step in range(0, 60, 10):
        said = stragglers.observe(at(step, 0.1, 0.3), now=step)
    assert len(said) == 1
    # It resumes from a checkpoint at an earlier step, perhaps at other speeds.
    assert stragglers.observe(at(20, 0.1, 0.3, attempt=1), now=80) == []
    assert stragglers.observe(at(60, 0.1, 0.3, attempt=1), now=120) == []
    assert len(stragglers.observe(at(70, 0.1, 0.3, attempt=1), now=130)) == 1


def test_states_without_progress_report_nothing() -> None:
    assert observed([at(40, 0.1, 0.3)] * 100) == []


def test_workers_may_come_late_and_leave() -> None:
    stragglers = Stragglers()
    assert stragglers.observe({}, now=0) == []
    assert stragglers.observe({1: worker(1, 0, 0.3)}, now=0) == []
    for step in range(0, 50, 10):
        assert stragglers.observe(at(step, 0.1, 0.3), now=step) == []
    gone = at(60, 0.1, 0.3)
    gone[0] = dataclasses.replace(gone[0], state=State.FINISHED)
    assert stragglers.observe(gone, now=60) == []


@pytest.mark.parametrize("count", range(2, 9))
def test_each_worker_is_compared_with_the_median_of_the_others(count: int) -> None:
    times = [0.1 * (1 + (7 * index) % 5) for index in range(count)]
    found = lags(worker(index, 60, seconds) for index, seconds in enumerate(times))
    for index in range(count):
        others = times[:index] + times[index + 1 :]
        assert found[index].others == pytest.approx(statistics.median(others))
