from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from tests.unit.board.made_runs import CREATED, make_run
from tfdist.board import board_folder
from tfdist.board.board_folder import BoardFolder, UnknownRunError, key_of
from tfdist.errors import RunDirError, UsageError


def test_runs_come_the_newest_first_by_when_they_began(tmp_path: Path) -> None:
    """Not by their files: copies have others' times."""
    runs = [make_run(tmp_path / name, CREATED + age).path for name, age in (("a", 0), ("b", 20), ("c", 10))]
    (tmp_path / "no run").mkdir()
    folder = BoardFolder(tmp_path)
    assert folder.runs() == [runs[1], runs[2], runs[0]]
    assert folder.find(key_of(runs[2])) == runs[2]


def test_a_run_directory_alone(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a").path
    assert BoardFolder(run).runs() == [run]


@pytest.mark.parametrize("key", ["", "..", "a", "%2e%2e", "../a", "0" * 16])
def test_what_is_no_runs_key_leads_nowhere(key: str, tmp_path: Path) -> None:
    make_run(tmp_path / "a")
    with pytest.raises(UnknownRunError):
        BoardFolder(tmp_path).find(key)


@pytest.mark.parametrize("part", [".", "state", "logs"])
def test_no_link_leads_out_of_the_folder(part: str, tmp_path: Path) -> None:
    outside = make_run(tmp_path / "outside" / "a").path
    shown = tmp_path / "shown"
    shown.mkdir()
    if part == ".":
        run = shown / "a"
        run.symlink_to(outside)
    else:
        run = make_run(shown / "a").path
        (run / part).rename(run / "own")
        (run / part).symlink_to(outside / part)
    folder = BoardFolder(shown)
    assert folder.runs() == [run]
    with pytest.raises(RunDirError, match="is a link that leads out of"):
        folder.find(key_of(run))


def test_a_link_within_the_folder_and_the_folder_itself_are_followed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "a").path
    (tmp_path / "runs" / "latest").symlink_to("a")
    (tmp_path / "link").symlink_to("runs")
    folder = BoardFolder(tmp_path / "link")
    assert {path.name for path in folder.runs()} == {"a", "latest"}
    assert folder.find(key_of(run)) == run


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no folder.* Received: nothing of that name"):
        BoardFolder(tmp_path / "runs")


def test_a_slow_run_holds_up_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_folder, "_DISK_SECONDS", 0.2)
    folder, over = BoardFolder(tmp_path), threading.Event()
    with pytest.raises(RunDirError, match="does not answer"):
        folder.reading("slow", lambda: over.wait(30))
    begun = time.monotonic()
    with pytest.raises(RunDirError, match="does not answer"):
        folder.reading("slow", lambda: True)
    assert folder.reading("other", lambda: 7) == 7
    assert time.monotonic() - begun < 10
    over.set()


def test_what_is_made_of_a_file_is_made_again_when_it_changed(tmp_path: Path) -> None:
    file, read = tmp_path / "file", []

    def size(path: Path) -> int:
        read.append(path)
        return os.path.getsize(path)

    folder = BoardFolder(tmp_path)
    file.write_text("a")
    assert [folder.remembered(file, size) for _ in range(3)] == [1, 1, 1] and len(read) == 1
    file.write_text("abc")
    assert folder.remembered(file, size) == 3
