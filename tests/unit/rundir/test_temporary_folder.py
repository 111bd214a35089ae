from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tfdist.rundir.temp_names import keep, temporary_folder

KILLED_INSIDE = """
import os, signal
from tfdist.rundir.temp_names import keep, temporary_folder

with temporary_folder("evaluate") as folder:
    (folder / "weights").write_bytes(b"much")
    if KEPT:
        keep(folder)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_it_is_this_users_alone_and_gone_at_the_end(temporary: Path) -> None:
    with pytest.raises(KeyError), temporary_folder("weights") as folder:
        assert folder.parent == temporary
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "weights").write_bytes(b"much")
        raise KeyError
    assert list(temporary.iterdir()) == []


def killed_inside(temporary: Path, *, kept: bool) -> Path:
    """A folder of a process that was killed."""
    environ = {**os.environ, "TMPDIR": str(temporary)}
    command = [sys.executable, "-c", f"KEPT = {kept}\n{KILLED_INSIDE}"]
    assert subprocess.run(command, env=environ, timeout=150).returncode == -signal.SIGKILL
    (left,) = temporary.iterdir()
    return left


def test_what_a_killed_process_left_is_removed_and_what_another_one_uses_stays(temporary: Path) -> None:
    left = killed_inside(temporary, kept=False)
    # Whatever it was for.
    with temporary_folder("weights") as first, temporary_folder("weights") as second:
        assert not left.exists()
        assert sorted(temporary.iterdir()) == sorted([first, second])


def test_what_is_kept_stays(temporary: Path) -> None:
    left = killed_inside(temporary, kept=True)
    with temporary_folder("evaluate") as folder:
        keep(folder)
    with temporary_folder("evaluate"):
        assert (left / "weights").read_bytes() == b"much"
    assert sorted(temporary.iterdir()) == sorted([left, folder])
