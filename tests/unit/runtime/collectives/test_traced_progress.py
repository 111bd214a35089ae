"""Traced collectives that are under way, for the watchdog: none is after an error that the script has caught."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdist.errors import WorkerFailedError
from tfdist.runtime.collectives.communicator import Communicator
from tfdist.runtime.collectives.traced_progress import TracedProgress
from tfdist.runtime.collectives.wire.engines import SharedMemoryEngine
from tfdist.runtime.transport.shared_memory import memory_operations
from tfdist.runtime.transport.shared_memory.memory_operations import MemoryOperations
from tfdist.training.supervision.activity import Limits
from tfdist.training.supervision.activity_tracker import ActivityTracker
from tfdist.training.supervision.error_report import explain

SECONDS = 30.0
STEP = 60.0


@pytest.fixture
def progress() -> TracedProgress:
    return TracedProgress()


@pytest.fixture
def tracker(progress: TracedProgress) -> ActivityTracker:
    tracker = ActivityTracker(Limits(first_step=600.0, step=STEP))
    tracker.watch_traced(progress.read)
    return tracker


def test_graphs_of_tensorflow_1_leave_those_of_python(progress: TracedProgress) -> None:
    """Without eager execution no variable can be read, and the heart of a worker must go on beating."""
    with tf.Graph().as_default(), progress.exchanging():
        assert progress.read() == (1, 0)


def test_a_collective_in_shared_memory_that_fails_is_over(
    progress: TracedProgress, tracker: ActivityTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First the system refuses the links, then the peer fails, then a function calls it twice; all are caught."""
    refused = WorkerFailedError("Workers 0, 1 cannot exchange in shared memory.")
    failed = WorkerFailedError("This worker waited: worker 1 has ended.")
    connections, exchanges = iter([refused, None]), iter([failed, None, None])
    limits = []

    def play(steps: Iterator[WorkerFailedError | None]) -> None:
        limits.append(tracker.limit)
        error = next(steps)
        if error is not None:
            raise error

    def connect() -> Any:
        play(connections)
        return SimpleNamespace()

    def gather(mesh: Any, arrays: list[np.ndarray], _: Any) -> list[np.ndarray]:
        play(exchanges)
        return [np.tile(array, 2) for array in arrays]

    monkeypatch.setattr(memory_operations, "gather_arrays", gather)
    memory: Any = SimpleNamespace(of_functions=MemoryOperations(0, connect))
    own = Communicator(0, 2, SharedMemoryEngine(memory), progress=lambda: progress)

    @tf.function
    def barriers() -> None:
        own.barrier()
        own.barrier()

    for error in (refused, failed):
        with pytest.raises(tf.errors.UnknownError, match=f"WorkerFailedError: {error}") as raised:
            barriers()
        known = explain(raised.value)
        assert (type(known), str(known)) == (WorkerFailedError, str(error))
        assert tracker.limit is None
    barriers()
    assert tracker.limit is None
    assert limits == [STEP] * 5
    assert progress.read() == (4, 4)


def test_one_of_tensorflow_is_under_way_while_its_function_runs(
    progress: TracedProgress, tracker: ActivityTracker
) -> None:
    queue = tf.queue.FIFOQueue(1, [tf.int32], shapes=[[]])

    @tf.function
    def call(fails: tf.Tensor) -> None:
        progress.begin()
        with tf.control_dependencies([queue.dequeue()]):
            checked = tf.debugging.Assert(tf.logical_not(fails), ["it fails"])
        with tf.control_dependencies([checked]):
            progress.end()

    with ThreadPoolExecutor(1) as threads:
        for fails in (False, True, False):
            done = threads.submit(call, tf.constant(fails))
            end = time.monotonic() + SECONDS
            while tracker.limit != STEP:
                assert time.monotonic() < end
                time.sleep(0.01)
            queue.enqueue(1)
            error = done.exception(SECONDS)
            assert isinstance(error, tf.errors.InvalidArgumentError) if fails else error is None
            assert tracker.limit is None
