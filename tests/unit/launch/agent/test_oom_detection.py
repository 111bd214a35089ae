from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.launch.agent.oom_detection import OomKillCount


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_both_counters_are_read(tmp_path: Path) -> None:
    write(tmp_path / "proc/vmstat", "nr_free_pages 12\noom_kill 3\nzzz 4\n")
    write(tmp_path / "proc/self/cgroup", "0::/jobs/mine\n")
    write(tmp_path / "sys/fs/cgroup/jobs/mine/memory.events", "low 0\noom 2\noom_kill 1\n")
    assert OomKillCount.now(tmp_path) == OomKillCount(3, 1)


def test_a_container_sees_its_own_group_at_the_root(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "1:memory:/x\n0::/docker/abc\n")
    write(tmp_path / "sys/fs/cgroup/memory.events", "oom_kill 7\n")
    assert OomKillCount.now(tmp_path) == OomKillCount(None, 7)


@pytest.mark.parametrize("text", ["", "oom_kill\n", "oom_kill many\n"])
def test_counts_that_the_kernel_does_not_have_are_none(tmp_path: Path, text: str) -> None:
    write(tmp_path / "proc/vmstat", text)
    assert OomKillCount.now(tmp_path) == OomKillCount(None, None)


@pytest.mark.parametrize(
    ("before", "after", "grew"),
    [
        (OomKillCount(3, None), OomKillCount(4, None), True),
        (OomKillCount(3, 0), OomKillCount(3, 1), True),
        (OomKillCount(3, 0), OomKillCount(3, 0), False),
        (OomKillCount(3, 0), OomKillCount(4, 0), False),  # another job's
        (OomKillCount(3, None), OomKillCount(4, 1), True),
        (OomKillCount(None, None), OomKillCount(None, None), None),
        (OomKillCount(None, 1), OomKillCount(3, None), None),
    ],
)
def test_grew(before: OomKillCount, after: OomKillCount, grew: bool | None) -> None:
    assert before.grew(after) is grew


def test_counts_of_this_machine() -> None:
    now = OomKillCount.now()
    assert now.grew(OomKillCount.now()) in (False, None)
