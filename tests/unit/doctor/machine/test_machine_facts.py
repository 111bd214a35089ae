from __future__ import annotations

import os
import resource

import pytest

from tfdist.doctor.machine.machine_facts import processor, quota, this_machine
from tfdist.plan.memory.host_memory import meminfo


def test_this_machine_is_as_the_system_says() -> None:
    found = this_machine()
    assert found.cores == len(os.sched_getaffinity(0))
    assert found.open_files == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert found.memory is not None and found.free is not None and 0 <= found.free <= found.memory


def test_meminfo() -> None:
    text = "MemTotal:       24631516 kB\nMemAvailable:   23986712 kB\nHugePages_Total:       0\nodd\n"
    assert meminfo(text) == {"MemTotal": 24631516 * 1024, "MemAvailable": 23986712 * 1024}


@pytest.mark.parametrize(
    ("text", "cores"), [("150000 100000\n", 1.5), ("max 100000\n", None), ("", None), ("odd text", None)]
)
def test_the_cpu_quota_of_a_control_group(text: str, cores: float | None) -> None:
    assert quota(text) == cores


@pytest.mark.parametrize(
    ("text", "model", "flags"),
    [
        (
            "processor\t: 0\nmodel name\t: A Processor\nflags\t\t: fpu avx avx2 avx512f amx_tile\n\n"
            "processor\t: 1\nmodel name\t: Another\n",
            "A Processor",
            ("amx_tile", "avx2", "avx512f"),
        ),
        ("processor\t: 0\nFeatures\t: fp asimd sve\n", "", ("asimd", "sve")),  # ARM
        ("", "", ()),
    ],
)
def test_the_processor(text: str, model: str, flags: tuple[str, ...]) -> None:
    assert processor(text) == (model, flags)
