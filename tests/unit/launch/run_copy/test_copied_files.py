from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.launch.run_copy.copied_files import (
    BYTES_PER_SECOND,
    Copied,
    LocalFile,
    dropped_names,
    due_files,
    is_copied,
    local_files,
)


@pytest.mark.parametrize(
    ("name", "copied"),
    [
        ("config.yaml", True),
        ("logs/worker-0.0.log", True),
        ("state/run.json", True),
        ("state/worker-3.json", True),
        ("state/copy.json", False),  # each side has its own
        ("checkpoints/step-00000010/checkpoint.json", True),
        ("checkpoints/fit-2/step-00000010/replicas.npz", True),
        ("checkpoints/.step-00000010.1a.tmp/replicas.npz", False),  # is being written
        (".model.ab12cd34.1-2-3.tmp.keras", False),
        ("events/train/events.out.tfevents.1.h", True),
        ("checkpoints/generations/00000001.json", False),
    ],
)
def test_what_belongs_to_a_copy(name: str, copied: bool) -> None:
    assert is_copied(name) is copied


def test_links_are_no_files_of_a_run(tmp_path: Path) -> None:
    for name in ("logs/a.log", "state/run.json", "state/worker-0.json", "other/b"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1234")
    (tmp_path / "link").symlink_to(tmp_path / "logs/a.log")
    (tmp_path / "folder").symlink_to(tmp_path / "other")
    assert [(file.name, file.size) for file in local_files(tmp_path)] == [
        ("logs/a.log", 4),
        ("other/b", 4),
        ("state/run.json", 4),
        ("state/worker-0.json", 4),
    ]
    assert local_files(tmp_path / "none") == []


MARK = "checkpoints/step-00000010/checkpoint.json"
WEIGHTS = "checkpoints/step-00000010/model.weights.h5"


def files(*names: str, size: int = 1, changed: int = 1) -> list[LocalFile]:
    return [LocalFile(name, size, changed) for name in names]


def test_a_run_is_marked_first_and_a_checkpoint_last() -> None:
    found = due_files(files(MARK, WEIGHTS, "config.yaml", "state/run.json"), {}, 0.0)
    assert [file.name for file in found] == ["state/run.json", WEIGHTS, "config.yaml", MARK]


def test_a_file_is_copied_again_when_it_has_changed_and_not_too_often() -> None:
    seconds = 20
    (before,) = files("log", size=seconds * BYTES_PER_SECOND)
    (now,) = files("log", size=seconds * BYTES_PER_SECOND, changed=2)
    copied = {"log": Copied(before, 100.0)}
    assert due_files([before], copied, 1e6, is_last=True) == []
    assert due_files([now], copied, 100.0 + seconds - 1) == []
    assert due_files([now], copied, 100.0 + seconds) == [now]
    assert due_files([now], copied, 100.0, is_last=True) == [now]


def test_states_are_copied_at_the_end() -> None:
    states = files("state/worker-0.json", "state/worker-1.1.error.json")
    assert due_files(states, {}, 0.0) == []
    assert due_files(states, {}, 0.0, is_last=True) == states


def test_what_a_copy_loses() -> None:
    there = [MARK, WEIGHTS, "failure.json", "history.json", "state/copy.json"]
    assert dropped_names(files("history.json", WEIGHTS, MARK), there) == ["failure.json"]
    assert dropped_names(files("history.json"), there) == [MARK, WEIGHTS, "failure.json"]
