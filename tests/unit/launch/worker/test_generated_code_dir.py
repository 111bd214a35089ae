from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tfdist.launch.worker.generated_code_dir import generated_code_dir

_KILLED = """
import os, signal
from tfdist.launch.worker.generated_code_dir import generated_code_dir
with generated_code_dir() as folder:
    open(os.path.join(folder, "made.py"), "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_folder_is_removed_with_all_that_is_in_it(place: Path) -> None:
    with generated_code_dir() as folder:
        assert folder is not None and Path(folder).parent == place
        assert os.stat(folder).st_mode & 0o777 == 0o700
        (Path(folder) / "__pycache__").mkdir()
        (Path(folder) / "__pycache__" / "made.pyc").touch()
    assert not list(place.iterdir())


def test_a_launcher_that_was_killed_leaves_it_to_the_next_one(place: Path) -> None:
    subprocess.run([sys.executable, "-c", _KILLED], env={**os.environ, "TMPDIR": str(place)}, timeout=60)
    (left,) = place.iterdir()
    other = place / "of-somebody-else.py"
    other.touch()
    with generated_code_dir() as folder, generated_code_dir() as beside:
        # The one of a launcher that runs stays.
        assert sorted(place.iterdir()) == sorted([Path(str(folder)), Path(str(beside)), other])
    assert not left.exists() and list(place.iterdir()) == [other]


def test_a_place_that_cannot_be_written_leaves_the_choice_to_tensorflow(place: Path) -> None:
    place.rmdir()
    place.touch()
    with generated_code_dir() as folder:
        assert folder is None
