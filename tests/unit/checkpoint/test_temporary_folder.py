from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tfdist.checkpoint.temporary_folder import temporary_folder

KILLED_INSIDE = """
import os, signal
from tfdist.checkpoint.temporary_folder import temporary_folder

with temporary_folder() as folder:
    (folder / "weights").write_bytes(b"much")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_it_is_this_users_alone_and_gone_at_the_end(temporary: Path) -> None:
    with pytest.raises(KeyError), temporary_folder() as folder:
        assert folder.parent == temporary
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "weights").write_bytes(b"much")
        raise KeyError
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_what_another_one_uses_stays(temporary: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(temporary)}
    killed = subprocess.run([sys.executable, "-c", KILLED_INSIDE], env=environ, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    (left,) = temporary.iterdir()
    with temporary_folder() as first, temporary_folder() as second:
        assert not left.exists()
        assert sorted(temporary.iterdir()) == sorted([first, second])
