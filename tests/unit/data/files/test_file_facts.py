from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tfdist.data.files.file_facts import local_file_system, random_calls_of

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/data /data nfs4 rw 0 0
/dev/sdb1 /data/near xfs rw 0 0
/dev/sdc1 /with\\040space btrfs rw 0 0
server:/more /größer nfs4 rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/a.npz", "ext4"),
        ("/data/a.npz", None),  # other hosts may see it, too
        ("/data/near/a.npz", "xfs"),
        ("/database/a.npz", "ext4"),
        ("/with space/a.npz", "btrfs"),
        ("/größer/a.npz", None),
    ],
)
def test_the_file_system_of_a_file(tmp_path: Path, path: str, expected: str | None) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS, "utf-8")
    assert local_file_system(path, mounts) == expected


def test_without_a_list_of_mounts(tmp_path: Path) -> None:
    assert local_file_system("/a", tmp_path / "absent") is None


def test_a_function_is_looked_at_and_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "looked_at"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "parsing.py").write_text("import random\ndef parse(record):\n    return random.random()\n")
    monkeypatch.chdir(tmp_path)
    assert random_calls_of("looked_at.parsing.parse") == ("random.random (parsing.py:3)",)
    assert random_calls_of("looked_at.parsing.absent") == ()
    assert random_calls_of("looked_at.absent.parse") == ()
    assert "looked_at" not in sys.modules


@pytest.mark.parametrize("path", ["absent_module.parse", "math.sqrt", "sys.exit"])
def test_what_has_no_source(path: str) -> None:
    assert random_calls_of(path) == ()
