"""A process that is killed while it sums: the others are told at once, and nothing is left."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time

import pytest

from tests.helpers.waiting import PATIENCE
from tfdist.net.host_links import HostLinks

WORKER = "tests.unit.runtime.transport.shared_memory.summing_worker"
WORKERS = 3


def started(links: HostLinks, worker: int) -> subprocess.Popen[str]:
    descriptors = links.ends_of(worker).descriptors
    return subprocess.Popen(
        [sys.executable, "-m", WORKER, *map(str, (worker, WORKERS, *descriptors))],
        pass_fds=descriptors,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_moment(seed: int) -> None:
    """The moment is anywhere in some hundred exchanges; each has several frames, which all wait for in turn."""
    draws = random.Random(seed)
    descriptors = set(os.listdir("/proc/self/fd"))
    with contextlib.ExitStack() as stack:
        with HostLinks(range(WORKERS)) as links:
            processes = [started(links, worker) for worker in range(WORKERS)]
            for process in processes:
                stack.callback(process.communicate)
                stack.callback(process.kill)
        assert [process.stdout.readline() for process in processes if process.stdout] == ["summed\n"] * WORKERS
        time.sleep(draws.uniform(0, 0.2))
        killed = draws.randrange(WORKERS)
        processes[killed].kill()
        said = [process.communicate(timeout=20 * PATIENCE)[1] for process in processes]
    left = [worker for worker in range(WORKERS) if worker != killed]
    assert [processes[worker].returncode for worker in left] == [1, 1]
    for worker in left:
        assert "This worker waited for the others in a collective (sum float32" in said[worker]
    # One of them may miss the other, which ended before it has looked at the one that was killed.
    assert any(f"broke off: worker {killed} has ended" in said[worker] for worker in left)
    # Those that earlier tests have left to the garbage collector may be gone.
    assert set(os.listdir("/proc/self/fd")) <= descriptors
    assert [name for name in os.listdir("/dev/shm") if "tfdist" in name] == []
