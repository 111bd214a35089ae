from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.plan.memory.host_memory import most_memory

MIB = 1 << 20


def system(folder: Path, groups: str = "0::/job/worker\n", **files: int | str) -> int | None:
    """What a host of 1,000 MiB and 200 MiB of swap allows, with these files of control groups."""
    (folder / "meminfo").write_text("MemTotal: 1024000 kB\nSwapTotal: 204800 kB\nMemAvailable: 10 kB\n")
    (folder / "groups").write_text(groups)
    for name, value in files.items():
        path = folder / "cgroup" / name.replace("__", "/").replace("-", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
    return most_memory(folder / "meminfo", folder / "groups", folder / "cgroup")


@pytest.mark.parametrize(
    ("files", "groups", "most"),
    [
        ({}, "", 1200),  # what is in use does not count
        ({"job/worker/memory.max": 500 * MIB}, "0::/job/worker\n", 700),
        ({"job/worker/memory.max": 500 * MIB, "job/worker/memory.swap.max": 0}, "0::/job/worker\n", 500),
        ({"job/worker/memory.max": "max", "job/memory.max": 300 * MIB}, "0::/job/worker\n", 500),
        ({"memory.max": 100 * MIB, "memory.swap.max": "max"}, "0::/\n", 300),
        ({"job/worker/memory.max": 5000 * MIB}, "0::/job/worker\n", 1200),
        ({"memory/job/memory.limit_in_bytes": 400 * MIB}, "5:memory:/job\n4:cpu:/other\n", 600),
        ({"memory/job/memory.memsw.limit_in_bytes": 400 * MIB}, "5:memory:/job\n", 400),
        ({"other/memory.max": MIB}, "0::/job\n", 1200),
    ],
)
def test_the_least_limit_counts(tmp_path: Path, files: dict[str, int | str], groups: str, most: int) -> None:
    assert system(tmp_path, groups, **files) == most * MIB


def test_nothing_is_told_where_the_system_does_not(tmp_path: Path) -> None:
    assert most_memory(tmp_path / "none", tmp_path / "none", tmp_path) is None


def test_this_host_has_some() -> None:
    assert (most_memory() or 0) > 100 * MIB
