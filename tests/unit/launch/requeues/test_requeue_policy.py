from __future__ import annotations

import pytest

from tfdist.launch.peers.messages import Stop
from tfdist.launch.requeues.requeue_policy import RequeuePolicy, RunStart

TERM = Stop(143, "SIGTERM to the launcher on a")


def idle(step: int = 0, resumed: int = 0) -> RunStart:
    """A start that was terminated before it had trained a batch."""
    return RunStart(143, step, resumed, seconds=60.0)


def trained(step: int, resumed: int = 0, code: int | None = 143) -> RunStart:
    return RunStart(code, step, resumed, has_trained=True, seconds=60.0)


KILLED = RunStart(None)


@pytest.mark.parametrize(
    ("starts", "count"),
    [
        ([], 0),
        ([idle()], 1),
        ([idle(), idle(), idle()], 3),
        ([idle(), trained(5), idle(5, 5)], 1),
        ([trained(5), idle(5, 5), idle(0, 0), idle(5, 5)], 3),
        ([idle(), idle(), trained(1)], 0),
        # Killed, by a node that was lost, say: it is no progress, and no requeue either.
        ([idle(), KILLED, idle()], 2),
        # Somebody has ended the run in another way since.
        ([idle(), idle(), RunStart(130), idle()], 1),
        ([idle(), idle(), RunStart(4)], 0),
        # Steps that nothing was kept of: the next start is where this one was.
        ([trained(50), trained(50), trained(48)], 2),
        # Behind the furthest step, and yet a bit further each time.
        ([trained(900), trained(110, 100), trained(120, 110), trained(130, 120)], 1),
    ],
)
def test_starts_without_progress_are_counted(starts: list[RunStart], count: int) -> None:
    assert RequeuePolicy().idle_starts(starts, is_saved=True) == count


def test_a_script_that_saves_by_itself_counts_its_steps_from_0() -> None:
    starts = [trained(50), trained(20), trained(30)]
    assert RequeuePolicy().idle_starts(starts, is_saved=False) == 0
    assert RequeuePolicy().idle_starts([*starts, idle()], is_saved=False) == 1


def test_a_long_start_without_a_step_is_a_loop_whose_steps_nobody_sees() -> None:
    long = RunStart(143, seconds=2000.0)
    assert RequeuePolicy().idle_starts([long] * 5, is_saved=False) == 0
    assert RequeuePolicy(patience=3000.0).idle_starts([long] * 5, is_saved=False) == 5


def test_a_run_is_requeued_as_often_as_is_allowed() -> None:
    policy = RequeuePolicy(most=2)
    for times in range(3):
        assert policy.judge(TERM, [idle()] * times, is_saved=True) == TERM
    judged = policy.judge(TERM, [idle()] * 3, is_saved=True)
    assert (judged.code, judged.why) == (4, TERM.why)
    assert judged.advice.startswith(
        "exit code 4 and not 143, so that no scheduler starts it once more: it was requeued 2 times without its first "
        "step (--max-requeues 2). Give it more time"
    )


@pytest.mark.parametrize(
    ("most", "starts", "says"),
    [
        (0, [idle()], "it was stopped before its first step (--max-requeues 0)"),
        (0, [trained(5), idle(5, 5)], "it was stopped without a step beyond step 5 "),
        (1, [trained(1200), idle(1200, 1200), idle()], "it was requeued once without a step beyond step 1,200 "),
    ],
)
def test_the_message_says_how_often(most: int, starts: list[RunStart], says: str) -> None:
    assert says in RequeuePolicy(most).judge(TERM, starts, is_saved=True).advice


def test_ctrl_c_stays_ctrl_c() -> None:
    stop = Stop(130, "Ctrl-C")
    assert RequeuePolicy(0).judge(stop, [idle()] * 9, is_saved=True) == stop
