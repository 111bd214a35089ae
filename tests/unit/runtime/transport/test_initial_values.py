"""Initial values of texts on workers that are threads: over memory that they share, and by sums over the network."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdist.errors import UnsupportedError, UsageError
from tfdist.launch.worker.worker_links import SETS
from tfdist.net.host_links import HostLinks
from tfdist.runtime.collectives.chief_broadcast import is_taken, value_from_chief
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport import worker_sums
from tfdist.runtime.transport.shared_memory.shared_memory import SharedMemory
from tfdist.runtime.transport.shared_memory.shared_memory_sums import SharedMemorySums

SECONDS = 20.0
WORKERS = 2
CARRIED = pytest.mark.parametrize("shares", [True, False], ids=["shm", "ring"])


class StandIn:
    """What is asked of a strategy whose workers have a replica each."""

    num_replicas_in_sync = WORKERS

    def __init__(self, worker: int) -> None:
        spec = SimpleNamespace(job_tasks=lambda _: ["a"] * WORKERS)
        self.cluster_resolver = SimpleNamespace(task_id=worker, cluster_spec=lambda: spec)


class Network:
    """Sums arrays of one shape that all workers give."""

    def __init__(self) -> None:
        self._given: list[np.ndarray] = []
        self._barrier = threading.Barrier(WORKERS, timeout=SECONDS)

    def sum_now(self, integers: np.ndarray, workers: int) -> np.ndarray:
        self._given.append(integers)
        self._barrier.wait()
        total = np.sum(self._given, 0, integers.dtype)
        if self._barrier.wait() == 0:
            self._given.clear()
        self._barrier.wait()
        return total


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool, Callable[[int, Any], Any]], list[Any]]:
    """Returns what each worker gets from a function of its index and strategy."""
    monkeypatch.setattr(worker_sums, "sum_now", Network().sum_now)

    def played(shares: bool, act: Callable[[int, Any], Any]) -> list[Any]:
        strategies: list[Any] = [StandIn(worker) for worker in range(WORKERS)]
        sets: list[list[Any]] = []
        for size in SETS if shares else ():
            with HostLinks(range(WORKERS), size) as links:
                sets.append([links.taken_by(worker) for worker in range(WORKERS)])
        memories = [SharedMemory.over([ends[worker] for ends in sets]) for worker in range(WORKERS)] if shares else []
        for strategy, memory in zip(strategies, memories, strict=False):
            settings = settings_of(strategy)
            settings.memory, settings.sums = memory, SharedMemorySums(memory.of_functions)
        with ThreadPoolExecutor(WORKERS) as threads:
            acts = [threads.submit(act, worker, strategy) for worker, strategy in enumerate(strategies)]
            try:
                return [done.result(SECONDS) for done in acts]
            finally:
                for memory in memories:
                    memory.close()

    return played


@CARRIED
@pytest.mark.parametrize(
    "texts",
    [
        lambda worker: f"{10**worker}",
        lambda worker: [["é" * (worker + 1), ""], ["x" * 90_000 * (2 - worker), b"\0" * (1 + worker)]],
        lambda worker: [f"{worker}", ""],
    ],
    ids=["one", "four", "two"],
)
def test_all_workers_get_the_texts_of_the_chief(play: Any, shares: bool, texts: Callable[[int], Any]) -> None:
    def act(worker: int, strategy: Any) -> Any:
        own = tf.constant(texts(worker))
        assert is_taken(own, "names", strategy)
        return value_from_chief(own, "names", strategy).numpy()

    for found in play(shares, act):
        assert np.array_equal(found, tf.constant(texts(0)).numpy())


@CARRIED
def test_shapes_that_differ_are_named(play: Any, shares: bool) -> None:
    def act(worker: int, strategy: Any) -> str:
        with pytest.raises(UsageError) as told:
            value_from_chief(tf.constant(["a"] * (1 + worker)), "names", strategy)
        return str(told.value)

    for said in play(shares, act):
        assert "'names', as this worker names it, of string (1,) on worker 0, string (2,) on worker 1" in said


@pytest.mark.parametrize("dtype", [tf.string, tf.bfloat16])
def test_a_variable_of_a_function_that_tensorflow_cannot_broadcast_is_refused(dtype: tf.DType) -> None:
    strategy: Any = StandIn(0)

    @tf.function
    def make() -> None:
        assert not is_taken(tf.zeros([2]), "fine", strategy)
        is_taken(tf.zeros([2], dtype), "late", strategy)

    with pytest.raises(UnsupportedError, match=f"no broadcast of {dtype.name}.*'late'.*outside of it"):
        make()
