"""Emulated replicas take turns, exchange, and end together."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.helpers.waiting import PATIENCE
from tfdist.runtime.transport.emulated_replicas import Diverged, emulated_replica, not_emulated, run_emulated


def exchanging(values: list[int], order: list[tuple[int, int]]) -> Callable[[], list[list[int]]]:
    def run() -> list[list[int]]:
        replica = emulated_replica()
        assert replica is not None
        found = []
        for value in values:
            order.append((replica.index, value))
            found.append(replica.gathered(value))
        return found

    return run


def test_replicas_take_turns_and_get_what_all_have_given() -> None:
    order: list[tuple[int, int]] = []
    results = run_emulated([exchanging([1, 2], order), exchanging([10, 20], order)])
    assert results == [[[1, 10], [2, 20]]] * 2
    assert order == [(0, 1), (1, 10), (0, 2), (1, 20)]
    assert emulated_replica() is None


@pytest.mark.parametrize(("first", "second"), [([1], []), ([], [1]), ([1, 2], [1]), ([1], [1, 2])])
def test_replicas_that_do_not_exchange_the_same_do_not_wait_for_ever(first: list[int], second: list[int]) -> None:
    with pytest.raises(Diverged):
        run_emulated([exchanging(first, []), exchanging(second, [])])


@pytest.mark.parametrize("failing", [0, 1])
def test_the_error_of_a_replica_is_raised(failing: int) -> None:
    def fail() -> list[list[int]]:
        raise KeyError("its own")

    functions = [exchanging([1], []), exchanging([1], [])]
    functions[failing] = fail
    with pytest.raises(KeyError, match="its own"):
        run_emulated(functions)


def test_code_of_a_replica_for_itself() -> None:
    def run() -> bool:
        with not_emulated():
            return emulated_replica() is None

    assert run_emulated([run, run]) == [True, True]


HANGS = """
import threading
from tfdist.runtime.transport.emulated_replicas import run_emulated

def hang():
    print("there", flush=True)
    threading.Event().wait()

run_emulated([hang, hang])
"""


def test_ctrl_c_ends_a_process_whose_replica_hangs() -> None:
    with subprocess.Popen([sys.executable, "-c", HANGS], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"there\n"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60 * PATIENCE)
        finally:
            process.kill()
    assert b"KeyboardInterrupt" in errors
