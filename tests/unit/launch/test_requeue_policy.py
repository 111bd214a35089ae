""""""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfdist.launch import requeue_policy
from tfdist.launch.peers.messages import Stop
from tfdist.launch.requeue_policy import RequeuePolicy, RunStart
from tfdist.rundir import RunDir
from tfdist.rundir.ledger_lines import AttemptPhase, LedgerEvent, LedgerInterval, append_entry

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


RUNNING, RESTARTING, STOPPED = AttemptPhase.RUNNING, AttemptPhase.RESTARTING, AttemptPhase.STOPPED


def write(run: RunDir, *entries: LedgerEvent | LedgerInterval) -> None:
    for entry in entries:
        append_entry(run.ledger_file, entry)


def test_starts_have_what_their_attempts_did(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    write(
        run,
        LedgerEvent(0, 11.0, RUNNING, since=10.0),
        LedgerInterval(0, 11.0, 20.0, {"step": 9.0}, 7, 7),
        LedgerEvent(0, 21.0, RESTARTING, why="worker 1", step=8),
        LedgerEvent(1, 22.0, RUNNING),
        LedgerEvent(1, 30.0, STOPPED, why="SIGTERM", step=8, code=143),
        LedgerEvent(2, 41.0, RUNNING, since=40.0),
        LedgerEvent(2, 45.0, STOPPED, why="SIGTERM", step=8, code=143),
        LedgerEvent(3, 51.0, RUNNING, since=50.0),
    )
    lines = [{"attempt": 1, "total": 5}, {"attempt": 2, "total": 8}, {"attempt": 2, "total": 6}, {"attempt": "x"}]
    run.resumes_file.write_text("\n".join([*map(json.dumps, lines), "[", ""]))
    assert requeue_policy.read_starts(run) == (
        RunStart(143, 8, 5, has_trained=True, seconds=20.0),
        RunStart(143, 8, 8, seconds=5.0),
        RunStart(None, seconds=1.0),
    )


def test_a_run_without_records_has_no_starts(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "new")
    assert requeue_policy.read_starts(run) == ()
    assert not requeue_policy.is_saved(run)


def test_the_end_of_a_long_ledger_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDir(tmp_path)
    write(run, LedgerEvent(0, 11.0, RUNNING, since=10.0))
    write(run, *(LedgerInterval(0, 11.0 + i, 12.0 + i, {"step": 1.0}, 1, 1 + i) for i in range(50)))
    monkeypatch.setattr(requeue_policy, "_MOST_BYTES", 1000)
    [start] = requeue_policy.read_starts(run)
    assert (start.step, start.has_trained, start.code) == (50, True, None)


def test_a_run_is_saved_where_it_has_checkpoints_or_has_resumed(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    run.checkpoints_dir.mkdir()
    assert requeue_policy.is_saved(run)
    run.checkpoints_dir.rmdir()
    run.resumes_file.touch()
    assert requeue_policy.is_saved(run)
