"""The cores of workers on machines with several NUMA nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tfdist.launch import environment
from tfdist.launch.worker import core_binding
from tfdist.launch.worker.core_binding import CoreBinding, choose_binding, own_cores, usable_nodes

ONE = (frozenset(range(8)),)
TWO = (frozenset({0, 1, 2, 3}), frozenset({4, 5, 6, 7}))
FOUR = tuple(frozenset({2 * node, 2 * node + 1}) for node in range(4))
UNEQUAL = (frozenset({0, 1, 2}), frozenset({4}))
INTERLEAVED = (frozenset({0, 2, 8, 10}), frozenset({1, 3, 9, 11}))


@pytest.mark.parametrize(
    ("nodes", "size", "expected"),
    [
        (TWO, 2, [((0, 1, 2, 3), 1), ((4, 5, 6, 7), 1)]),
        (INTERLEAVED, 2, [((0, 2, 8, 10), 1), ((1, 3, 9, 11), 1)]),
        (TWO, 4, [((0, 1, 2, 3), 2)] * 2 + [((4, 5, 6, 7), 2)] * 2),
        (TWO, 8, [((0, 1, 2, 3), 4)] * 4 + [((4, 5, 6, 7), 4)] * 4),
        (FOUR, 2, [((0, 1, 2, 3), 1), ((4, 5, 6, 7), 1)]),
        (FOUR, 4, [((0, 1), 1), ((2, 3), 1), ((4, 5), 1), ((6, 7), 1)]),
        # What would make some workers slower than others, or what there is no need for.
        (TWO, 3, [None] * 3),
        (FOUR, 3, [None] * 3),
        (TWO, 10, [None] * 10),
        (UNEQUAL, 2, [None] * 2),
        (ONE, 2, [None] * 2),
        ((), 2, [None] * 2),
        (TWO, 1, [None]),
    ],
)
def test_each_worker_has_the_cores_of_its_nodes(
    nodes: tuple[frozenset[int], ...], size: int, expected: list[tuple[tuple[int, ...], int] | None]
) -> None:
    found = [choose_binding(rank, size, nodes) for rank in range(size)]
    assert found == [None if entry is None else CoreBinding(*entry) for entry in expected]


def made_up(root: Path, **lists: str) -> Path:
    """A folder as the kernel's, with the cores of each node."""
    for name, cores in lists.items():
        (root / name).mkdir()
        (root / name / "cpulist").write_text(f"{cores}\n")
    (root / "online").write_text("0-1\n")
    (root / "power").mkdir()
    return root


@pytest.mark.parametrize(
    ("lists", "allowed", "expected"),
    [
        ({"node0": "0-3", "node1": "4-7"}, range(8), TWO),
        ({"node0": "0-1,4-5", "node1": "2-3,6,7"}, range(8), ({0, 1, 4, 5}, {2, 3, 6, 7})),
        ({"node0": "0-3", "node1": "4-7"}, range(4), ({0, 1, 2, 3},)),  # a container, or taskset
        ({"node0": "0-3", "node1": ""}, range(8), ({0, 1, 2, 3},)),  # memory without cores
        ({"node10": "1", "node9": "0"}, range(8), ({0}, {1})),
        ({}, range(8), ()),
    ],
)
def test_the_nodes_are_those_of_the_kernel(
    lists: dict[str, str],
    allowed: range,
    expected: tuple[set[int], ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(allowed))
    assert usable_nodes(made_up(tmp_path, **lists)) == tuple(map(frozenset, expected))


def test_a_kernel_without_numa(tmp_path: Path) -> None:
    assert usable_nodes(tmp_path / "absent") == ()


@pytest.mark.parametrize(
    ("allowed", "cores", "local", "size", "workers"),
    [
        (range(4), 8, 1, 2, 1),  # half of the machine for each of two launchers
        (range(4), 64, 1, 2, 1),  # a job that has a part of the machine, and its tasks parts of that
        (range(6), 8, 1, 2, 2),  # not both can have so many of their own
        (range(4), 8, 2, 4, 2),
        (range(4), 8, 3, 4, 3),
        (range(8), 8, 1, 2, None),  # all cores
        (range(4), 8, 2, 2, None),  # all workers
        (range(1), 8, 2, 3, None),  # fewer cores than workers
    ],
)
def test_a_launcher_beside_others_that_may_run_on_a_part_of_the_machine(
    allowed: range, cores: int, local: int, size: int, workers: int | None
) -> None:
    expected = None if workers is None else CoreBinding(tuple(allowed), workers)
    assert own_cores(frozenset(allowed), cores, local, size) == expected


def test_all_workers_of_a_launcher_share_its_own_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "usable_nodes", lambda: TWO)
    monkeypatch.setattr(environment, "computes_on_gpus", lambda environ: False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {2, 3, 4, 5})
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert environment.choose_cores_here(2, 1) == [CoreBinding((2, 3, 4, 5), 1)] * 2


def test_workers_on_gpus_are_not_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "usable_nodes", lambda: TWO)
    monkeypatch.setattr(environment, "computes_on_gpus", lambda environ: False)
    assert environment.choose_cores_here(2, 2) == [CoreBinding((0, 1, 2, 3), 1), CoreBinding((4, 5, 6, 7), 1)]
    assert environment.choose_cores_here(1, 1) == [None]
    monkeypatch.setattr(environment, "computes_on_gpus", lambda environ: True)
    assert environment.choose_cores_here(2, 2) == [None, None]


def test_a_process_and_its_threads_keep_to_the_cores() -> None:
    core = min(os.sched_getaffinity(0))
    code = f"""
import os, threading
from {core_binding.__name__} import CoreBinding
assert CoreBinding(({core},), 1).bind()
threading.Thread(target=lambda: print(os.sched_getaffinity(0))).start()
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True, timeout=150).strip() == str({core})


def test_cores_that_are_not_there_bind_nothing() -> None:
    before = os.sched_getaffinity(0)
    binding = CoreBinding((100_000,), 1)
    assert not binding.bind()
    assert not binding.is_kept
    assert CoreBinding(tuple(before), 1).is_kept
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("binding", [((), 1), ((0,), 0), ((0,), 2)])
def test_an_impossible_binding(binding: tuple[tuple[int, ...], int]) -> None:
    with pytest.raises(ValueError, match="Cores are bound"):
        CoreBinding(*binding)
