from __future__ import annotations

import pytest

from tfdist.launch.agent.group_exit_policy import FOLLOW_SECONDS, GONE_SECONDS, ExitAction, WorkerExit, decide_exit

WAIT, RELEASE, END = ExitAction.WAIT, ExitAction.RELEASE, ExitAction.END
NOW = 100.0
LATE = NOW - FOLLOW_SECONDS - 0.1


def working(index: int) -> WorkerExit:
    return WorkerExit(index)


def done(index: int, code: int, *, since: float = NOW, gone: bool = False) -> WorkerExit:
    return WorkerExit(index, code, gone, since=since)


@pytest.mark.parametrize(
    ("workers", "verdict", "code", "culprits"),
    [
        ([working(0)], WAIT, 0, ()),
        ([done(0, 0)], RELEASE, 0, ()),
        ([done(0, 3)], RELEASE, 3, ()),  # one worker agrees with itself
        ([done(0, 3, gone=True)], RELEASE, 3, ()),
        ([done(0, 0), working(1)], WAIT, 0, ()),
        ([done(0, 0, since=0), working(1)], WAIT, 0, ()),  # the others may work as long as they like
        ([done(0, 0), done(1, 0)], RELEASE, 0, ()),
        ([done(0, 3), done(1, 3)], RELEASE, 3, ()),
        ([done(0, 3), working(1)], WAIT, 0, ()),  # there is time left
        ([done(0, 3, since=LATE), working(1)], END, 0, (0,)),
        ([done(0, 3, since=LATE), done(1, 3)], RELEASE, 3, ()),
        ([done(0, 3), done(1, 0)], END, 0, (0,)),
        ([done(0, 3), done(1, 4), working(2)], END, 0, (0, 1)),
        ([done(0, 0, gone=True), working(1)], WAIT, 0, ()),
        ([done(0, 0, since=LATE, gone=True), working(1)], END, 0, (0,)),  # TensorFlow cannot continue without it
        ([done(0, 0, since=NOW - GONE_SECONDS, gone=True), working(1)], WAIT, 0, ()),
        # One that is gone is followed sooner than one that waits for the others.
        ([done(0, 0, since=NOW - GONE_SECONDS - 0.1, gone=True), working(1)], END, 0, (0,)),
        ([done(0, 3, since=NOW - GONE_SECONDS - 0.1), working(1)], WAIT, 0, ()),
        ([done(0, 3, since=NOW - FOLLOW_SECONDS), working(1)], WAIT, 0, ()),
        ([done(0, 0, gone=True), done(1, 0)], RELEASE, 0, ()),
        ([done(0, 0), WorkerExit(1, gone=True, failed=True)], END, 0, (1,)),
        ([WorkerExit(0, failed=True), WorkerExit(1, failed=True)], END, 0, (0, 1)),
    ],
)
def test_decide_exit(workers: list[WorkerExit], verdict: ExitAction, code: int, culprits: tuple[int, ...]) -> None:
    decision = decide_exit(workers, NOW)
    assert (decision.action, decision.code, decision.culprits) == (verdict, code, culprits)
