"""What a worker writes of the error that ends it."""

from __future__ import annotations

import dataclasses
import runpy
from pathlib import Path

import pytest
import tensorflow as tf

from tfdist.errors import DataError, DeviceMemoryError, UsageError, WorkerFailedError
from tfdist.launch.environment import Assignment
from tfdist.rundir import Failure, RunDir, State, WorkerState, create_run_dir
from tfdist.training.supervision.error_report import explain, report
from tfdist.training.supervision.launcher_link import link_of

ABORTED = """Graph execution error:

Detected at node CollectiveReduceV2 defined at (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main

Collective ops is aborted by: Connection refused
The error could be from a previous operation. Restart your program to reset."""


@pytest.mark.parametrize("module", ["no_such_module", "no_such.module", "json.absent", "json"])
def test_a_module_that_python_cannot_run_is_a_mistake_of_the_command_line(module: str) -> None:
    with pytest.raises(ImportError) as raised:
        runpy.run_module(module, run_name="__main__")
    assert isinstance(explain(_without_the_test(raised.value)), UsageError)


def test_an_import_that_a_module_itself_makes_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imports_in_vain.py").write_text("import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError) as raised:
        runpy.run_module("imports_in_vain", run_name="__main__")
    assert explain(raised.value) is None


@pytest.mark.parametrize(
    ("text", "gist"), [(ABORTED, "Connection refused"), ("Socket closed", "Socket closed"), ("", "Un")]
)
def test_a_lost_peer_is_told_in_one_line(text: str, gist: str) -> None:
    known = explain(tf.errors.UnavailableError(None, None, text))
    assert isinstance(known, WorkerFailedError)
    assert f"TensorFlow says: {gist}" in str(known)
    assert "Graph execution" not in str(known)


def test_collectives_of_a_function_that_differ_are_told_as_in_eager_code() -> None:
    text = (
        "{{function_node __inference_f_9}} assertion failed: [Workers call the same collectives in the same order, "
        "with values of one shape. Received:] [on worker 0:] [all_reduce(sum) of ['a']: float32 of shape (3,)] [on "
        "worker 1:] [barrier] [See.]\n\t [[{{node Assert}}]] [Op:__inference_f_9]"
    )
    known = explain(tf.errors.InvalidArgumentError(None, None, text))
    assert isinstance(known, UsageError)
    assert str(known).endswith("on worker 0: all_reduce(sum) of ['a']: float32 of shape (3,) on worker 1: barrier See.")
    assert explain(tf.errors.InvalidArgumentError(None, None, "assertion failed: [x]")) is None


def test_a_worker_that_tensorflow_gave_up_is_a_lost_peer() -> None:
    """As where a worker gets no processor for ten seconds while the cluster forms."""
    text = (
        "Barrier failed because: task is set to ERROR: UNAVAILABLE: Task /job:worker/replica:0/task:0 heartbeat "
        "timeout. [type.googleapis.com/tensorflow.CoordinationServiceError='']. Barrier Id: WaitForAllTasks::1\n"
        "RPC: /tensorflow.CoordinationService/WaitForAllTasks"
    )
    known = explain(tf.errors.InternalError(None, None, text))
    assert isinstance(known, WorkerFailedError)
    assert "TensorFlow says: Barrier failed because: task is set to ERROR" in str(known)
    assert "\n" not in str(known)
    assert explain(tf.errors.InternalError(None, None, "Blas GEMM launch failed")) is None


def test_a_worker_alone_has_no_peer_to_lose() -> None:
    unreachable = tf.errors.UnavailableError(None, None, "Error executing an HTTP request: Couldn't connect to server")
    assert explain(unreachable, has_peers=False) is None


@pytest.mark.parametrize(
    "text",
    [
        "Graph execution error:\n\nDetected at node Relu\nOOM when allocating tensor with shape[9,9] on /device:GPU:0",
        "Out of memory while trying to allocate 99 bytes. [Op:__inference_one_step]",
        "failed to allocate memory [Op:Mul]",
    ],
)
def test_a_device_without_memory_is_told_with_the_remedy(text: str) -> None:
    known = explain(tf.errors.ResourceExhaustedError(None, None, text))
    assert isinstance(known, DeviceMemoryError)
    assert known.exit_code == 4
    assert "data.batch_size" in str(known) and "--memory-limit" in str(known)
    assert "allocat" in str(known).rpartition("TensorFlow says:")[2]


def test_other_resources_than_memory_are_not_explain() -> None:
    assert explain(tf.errors.ResourceExhaustedError(None, None, "Received message larger than max")) is None


def _without_the_test(error: BaseException) -> BaseException:
    """The error as a worker sees it: the test's own frame is no part of that."""
    assert error.__traceback__ is not None
    return error.with_traceback(error.__traceback__.tb_next)


IN_SHARED_MEMORY = """Graph execution error:

Detected at node PyFunc defined at (most recent call last):
<stack traces unavailable>
{kind}: {text}
Traceback (most recent call last):

  File "script_ops.py", line 269, in __call__
    ret = func(*args)

tfdist.errors.{kind}: {text}


\t [[{{{{node PyFunc}}}}]] [Op:__inference_one_step_10]"""


@pytest.mark.parametrize("kind", [WorkerFailedError, UsageError])
def test_an_error_of_a_sum_in_shared_memory_is_itself_again(kind: type[Exception]) -> None:
    text = "This worker waited (sum float32 [3]): worker 1 has ended."
    raised = tf.errors.UnknownError(None, None, IN_SHARED_MEMORY.format(kind=kind.__name__, text=text))
    known = explain(raised)
    assert type(known) is kind
    assert str(known) == text
    assert explain(raised, has_peers=False) is None


@pytest.fixture
def assignment(tmp_path: Path) -> Assignment:
    run = create_run_dir(tmp_path / "run", name="reporting")
    return Assignment(str(run.path), 7, index=0, num_workers=1, target_kind="script", target="x.py")


def left_of(error: Exception, assignment: Assignment) -> tuple[int, Failure, WorkerState]:
    """The exit code, the error file and the last state of a worker that raises an error."""
    try:
        raise error
    except type(error) as raised:
        code = report(raised, assignment)
    run = RunDir(assignment.run_dir)
    record, state = Failure.read(run.error_file(0, 0)), WorkerState.read(run.state_file(0))
    assert record is not None and state is not None
    assert run.log_file(0, 0).read_text() == record.traceback
    return code, record, state


def test_an_error_before_any_step_has_none(assignment: Assignment) -> None:
    code, record, state = left_of(ValueError("early"), assignment)
    assert (code, record.exit_code, record.type, record.message) == (4, 4, "ValueError", "early")
    assert (record.epoch, record.step) == (None, None)
    assert state.state is State.FAILED
    assert 'raise error\nValueError: early\n' in record.traceback


def test_an_error_says_at_which_step(assignment: Assignment) -> None:
    activity = link_of(assignment).activity
    with activity.calling("fit"):
        activity.begin_epoch(1)
        activity.begin_batches()
        activity.end_batches(trained=14)
    code, record, state = left_of(DataError("record 3 is damaged"), assignment)
    assert (code, record.type) == (5, "tfdist.errors.DataError")
    assert (record.epoch, record.step) == (state.epoch, state.step) == (1, 14)


def test_a_folder_that_another_worker_may_have_made(assignment: Assignment) -> None:
    error, advice = FileExistsError(17, "File exists", "results"), "os.makedirs(..., exist_ok=True)"
    assert advice not in left_of(error, assignment)[1].message
    several = dataclasses.replace(assignment, num_workers=2, cluster="a:1,b:1")
    report(error, several)
    record = Failure.read(RunDir(assignment.run_dir).error_file(0, 0))
    assert record is not None and advice in record.message


class Unprintable(Exception):
    """One whose texts raise, as those of a class do that looks at an attribute which it does not have."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Nameless(RuntimeError):
    """One of a class that does not say its module, as a class made at run time may not."""

    __module__ = None  # type: ignore[assignment]


def test_an_error_without_a_text_is_named_all_the_same(assignment: Assignment) -> None:
    code, record, _ = left_of(Unprintable(), assignment)
    assert (code, record.type) == (4, f"{__name__}.Unprintable")
    assert record.message == "<Unprintable without a text: its __str__ raises RuntimeError>"
    assert "raise error" in record.traceback


def test_an_error_of_a_class_unlike_others_is_named_all_the_same(assignment: Assignment) -> None:
    code, record, _ = left_of(Nameless("why"), assignment)
    assert (code, record.type, record.message) == (4, "None.Nameless", "why")


@pytest.mark.parametrize(("index", "advises"), [(None, True), (0, False)])
def test_input_without_a_terminal_says_how_a_worker_gets_it(
    assignment: Assignment, index: int | None, advises: bool
) -> None:
    _, record, _ = left_of(EOFError("EOF when reading a line"), dataclasses.replace(assignment, debug_worker=index))
    assert record.message.startswith("EOF when reading a line") and record.type == "EOFError"
    assert ("--debug-worker 0" in record.message) == advises


def test_another_end_of_a_file_is_left_as_it_is(assignment: Assignment) -> None:
    assert left_of(EOFError("the file ends"), assignment)[1].message == "the file ends"
