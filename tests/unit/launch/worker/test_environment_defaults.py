"""Which settings of malloc a worker gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.launch.worker.environment_defaults import allocator_settings


def test_freed_memory_is_kept_on_the_cpu(tmp_path: Path) -> None:
    assert allocator_settings({"PATH": "/bin"}, tmp_path / "nvidiactl")["MALLOC_ARENA_MAX"] == "1"


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_", "LD_PRELOAD"])
def test_what_the_user_chose_stays(name: str, tmp_path: Path) -> None:
    assert allocator_settings({name: "4"}, tmp_path / "nvidiactl") == {}


def test_machines_with_gpus_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "nvidiactl").touch()
    assert allocator_settings({}, tmp_path / "nvidiactl") == {}
