from __future__ import annotations

import pytest

from tests.helpers.launch_fakes import state
from tfdist.launch.agent.hang_diagnosis import explain_hang, laggards
from tfdist.launch.peers.messages import WorkerStacks
from tfdist.launch.peers.root_cause import is_consequence
from tfdist.launch.worker.worker_process import SILENT, STOPPED
from tfdist.rundir.state_records import State, WorkerState


@pytest.mark.parametrize(
    ("states", "silent", "busy", "late"),
    [
        ([state(0, 5), state(1, 4), state(2, 5)], [], [], {1}),
        ([state(0, 5), state(1, 5, state=State.CALLBACK)], [], [], {1}),
        ([state(0, 5), state(1, 5, state=State.EVALUATING)], [], [], {1}),
        ([state(0, 0, state=State.COMPILING), state(1, 0, state=State.STARTING)], [], [], {1}),
        ([state(0, 0, state=State.EXCHANGING), state(1, 0, state=State.STARTING, limit=None)], [], [], {1}),
        # A worker that waits for the cluster to form cannot answer; it is not blamed if another is less advanced.
        ([state(0, 0, state=State.STARTING, limit=9.0), state(1, 0, state=State.STARTING, limit=None)], [0], [], {1}),
        ([state(0, 0, state=State.STARTING, limit=9.0), state(1, 0, state=State.COMPILING)], [0], [], {0}),
        ([state(0, 5), state(1, 5)], [0], [], {0}),
        ([state(0, 5), state(1, 4)], [0], [], {1}),
        ([state(0, 5), state(1, 5)], [], [], {0, 1}),
        ([state(0, 5), state(1, 5)], [], [1], {1}),
        ([state(0, 5), state(1, 5)], [0], [1], {0}),
        ([state(0, 5), state(1, 4)], [], [0], {1}),
    ],
)
def test_laggards(states: list[WorkerState], silent: list[int], busy: list[int], late: set[int]) -> None:
    assert laggards(states, silent, busy) == late


def test_a_function_of_the_input_that_hangs_is_named_with_its_log() -> None:
    states = {0: state(0, 5), 1: state(1, 5)}
    answers = {
        0: WorkerStacks(0, "train.py line 9", ""),
        1: WorkerStacks(1, "train.py line 9", "", "data.py line 3", "/log"),
    }
    first, second = explain_hang(states, answers, {}, 61.0)
    assert is_consequence(first) and not is_consequence(second)
    assert "It is in step 6: train.py line 9, while data.py line 3 runs (input pipeline" in second.message
    assert second.log == "/log"


def test_a_cluster_that_does_not_form_has_a_remedy() -> None:
    forming = {index: state(index, 0, state=State.STARTING, limit=9.0) for index in range(2)}
    for failure in explain_hang(forming, {}, {}, 19.0):
        assert failure.message == (
            "hangs: for 19 s it has waited for TensorFlow to form the cluster, for which each worker must reach all "
            "others on their ports: `tfdist doctor --workers ...` finds out whether they do"
        )
        assert (failure.epoch, failure.step, is_consequence(failure)) == (None, None, False)
    states = {0: forming[0], 1: state(1, 0, state=State.STARTING, limit=None)}
    waits, hangs = explain_hang(states, {1: WorkerStacks(1, "train.py line 3", "")}, {}, 19.0)
    assert is_consequence(waits) and waits.message == "waits for the cluster to form"
    assert "It is outside of fit, evaluate and predict: train.py line 3" in hangs.message


def test_steps_that_run_in_one_execution_are_told_together() -> None:
    states = {0: state(0, 1, begun=10), 1: state(1, 1, begun=2)}
    first, second = explain_hang(states, {0: WorkerStacks(0, "here", ""), 1: WorkerStacks(1, "there", "")}, {}, 61.0)
    assert "It is in one of the steps 2 to 10, which run together: here" in first.message
    assert "It is in step 2: there" in second.message


def test_the_worker_that_is_behind_comes_first() -> None:
    states = {0: state(0, 417), 1: state(1, 417), 2: state(2, 416, state=State.CALLBACK, epoch=3)}
    answers = {index: WorkerStacks(index, f"train.py line {index}", f"stacks {index}") for index in states}
    by_index = {failure.index: failure for failure in explain_hang(states, answers, {2: "/log"}, 61.0)}
    late = by_index[2]
    assert late.message == (
        "hangs: for 61 s nothing has moved, and it has not reached step 418. It is in a callback after step 416: "
        "train.py line 2"
    )
    assert (late.traceback, late.log, late.epoch, late.step) == ("stacks 2", "/log", 3, 416)
    assert by_index[0].message == "waits in step 418: train.py line 0"
    assert not is_consequence(late) and is_consequence(by_index[0]) and is_consequence(by_index[1])


@pytest.mark.parametrize("answer", [STOPPED, None])
def test_a_worker_that_does_not_answer_is_blamed(answer: str | None) -> None:
    states = {0: state(0, 5), 1: state(1, 5)}
    answers = {0: WorkerStacks(0, "train.py line 1", "")}
    if answer is not None:
        answers[1] = WorkerStacks(1, answer, "")
    late = next(failure for failure in explain_hang(states, answers, {}, 61.0) if not is_consequence(failure))
    assert late.index == 1
    assert (answer or SILENT) in late.message
