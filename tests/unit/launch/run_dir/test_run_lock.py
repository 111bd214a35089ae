from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.errors import RunDirError
from tfdist.launch.run_dir.run_lock import RunLock
from tfdist.rundir import create_run_dir
from tfdist.rundir.layout import RunDir


def test_a_run_directory_is_locked_while_its_job_runs(tmp_path: Path) -> None:
    run = create_run_dir(tmp_path / "a", name="n")
    other = create_run_dir(tmp_path / "b", name="n")
    with RunLock() as first, RunLock() as second:
        first.take(run)
        first.take(run)
        second.take(other)
        with pytest.raises(RunDirError, match="still running"):
            second.take(run)
    with RunLock() as third:
        third.take(run)
        third.take(other)


def test_a_directory_that_is_overwritten_stays_locked(tmp_path: Path) -> None:
    run = create_run_dir(tmp_path / "a", name="n")
    with RunLock() as first, RunLock() as second:
        first.take(run)
        create_run_dir(tmp_path / "a", name="n", overwrite=True)
        with pytest.raises(RunDirError, match="still running"):
            second.take(run)


def test_a_directory_that_does_not_exist_is_not_locked(tmp_path: Path) -> None:
    with RunLock() as hold:
        hold.take(RunDir(tmp_path / "absent"))
    assert not (tmp_path / "absent").exists()
