from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tfdist.errors import UsageError
from tfdist.verify.work_folder import open_folder

KILLED_INSIDE = """
import os, signal, sys
from tfdist.verify.work_folder import open_folder
with open_folder(None, "evaluate") as folder:
    (folder.path / "run").mkdir()
    if sys.argv[1] == "kept":
        folder.keep()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("kept", [False, True])
def test_what_a_killed_command_left_goes_with_the_next_unless_it_was_kept(kept: bool) -> None:
    temporary = Path(tempfile.gettempdir())
    command = [sys.executable, "-c", KILLED_INSIDE, "kept" if kept else ""]
    done = subprocess.run(command, env={**os.environ, "TMPDIR": str(temporary)}, timeout=60)
    assert done.returncode == -signal.SIGKILL
    (left,) = temporary.iterdir()
    assert left.name.startswith("tfdist-evaluate.")
    with open_folder(None) as folder:
        assert folder.path.name.startswith("tfdist-verify.")
        assert left.exists() == kept
    assert list(temporary.iterdir()) == [left] * kept


def test_without_a_place_for_temporary_files_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="Not a directory.* Set TMPDIR to another one"), open_folder(None):
        pass
    # What goes wrong inside is something else.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(OSError, match="inside"), open_folder(None):
        raise OSError("inside")
