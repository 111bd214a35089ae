"""What a worker asks for of the devices of its machine."""

from __future__ import annotations

import os

import pytest

from tfdist.launch.environment import Assignment
from tfdist.launch.worker.core_binding import CoreBinding
from tfdist.training.session.current_session import requested_devices


@pytest.mark.parametrize(("allowed", "sharing"), [({0, 1}, 1), (set(range(8)), None)])
def test_a_worker_that_was_not_bound_shares_all_cores(
    allowed: set[int], sharing: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: allowed)
    assignment = Assignment(
        "/r",
        0,
        0,
        4,
        "script",
        "x.py",
        local_rank=0,
        local_size=4,
        own_gpus=True,
        cluster="a:1,a:2,a:3,a:4",
        binding=CoreBinding((0, 1), 1),
    )
    asked = requested_devices(assignment)
    assert (asked.sharing, asked.own_gpus) == (sharing, True)
