from __future__ import annotations

import pytest

from tfdist.launch.worker_options import WorkerOptions

pytest.importorskip("ray")

from tfdist.ray.train.backend import (
    WorkerPlace,  # noqa: E402
    assignments,  # noqa: E402 - needs Ray
)


def place(address: str) -> WorkerPlace:
    return WorkerPlace(address, "h", "1", "auto")


COMMON = {"run_dir": "/shared/run", "seed": 7, "attempt": 1, "job": "j", **WorkerOptions().worker_options()}


def test_assignments_of_workers_on_two_machines() -> None:
    places = [place("10.0.0.1:20001"), place("10.0.0.1:20002"), place("10.0.0.2:20001")]
    found = assignments(places, "train", COMMON)
    assert [each.index for each in found] == [0, 1, 2]
    assert [(each.local_rank, each.local_size) for each in found] == [(0, 2), (1, 2), (0, 1)]
    assert {each.cluster for each in found} == {"10.0.0.1:20001,10.0.0.1:20002,10.0.0.2:20001"}
    assert {(each.seed, each.attempt, each.run_dir) for each in found} == {(7, 1, "/shared/run")}
    assert all(each.own_gpus for each in found)


def test_one_worker_has_no_cluster() -> None:
    (only,) = assignments([place("10.0.0.1:20001")], "train", COMMON)
    assert (only.cluster, only.address, only.num_workers) == (None, None, 1)


def test_ipv6() -> None:
    found = assignments([place("[fd00::1]:20001"), place("[fd00::1]:20002")], "train", COMMON)
    assert [(each.local_rank, each.local_size) for each in found] == [(0, 2), (1, 2)]
