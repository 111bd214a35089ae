from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import tensorflow as tf

from tfdist.errors import DeviceMemoryError, UsageError, WorkerFailedError
from tfdist.training.supervision.exception_causes import explain

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
