from __future__ import annotations

import errno
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from tfdist.errors import RunDirError
from tfdist.rundir import RunDir, atomic_files, create_run_dir, join_run_dir
from tfdist.rundir.atomic_files import write_text
from tfdist.rundir.run_dir_creation import Resume, next_attempt
from tfdist.rundir.temp_names import temp_path

STRANGERS = [".mine.tmp", "notes.txt", "events/notes.txt", "logs/worker.txt", "state/mine.json"]


def entries(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


@pytest.fixture
def earlier_run(tmp_path: Path) -> RunDir:
    """A directory with every file that a run can leave."""
    run = create_run_dir(tmp_path / "a", name="digits")
    for directory in ("train", "validation"):
        (run.events_dir / directory).mkdir(parents=True)
        (run.events_dir / directory / "events.out.tfevents.1700000000.host.1.0.v2").write_text("x")
    records = (run.config_file, run.history_file, run.metrics_file, run.model_file, run.done_file, run.resumes_file)
    for file in (*records, run.failure_file):
        file.write_text("old")
    for checkpoint in (run.checkpoints_dir / "step-00000005", run.checkpoints_dir / "fit-2" / "step-00000003"):
        checkpoint.mkdir(parents=True)
        for name in ("checkpoint.json", "model.weights.h5", "replicas.npz", "summary.json"):
            (checkpoint / name).write_text("old")
    for file in (run.log_file(0, 0), run.state_file(0), run.error_file(0, 0)):
        file.write_text("old")
    temp_path(run.model_file).write_text("what a writer that was killed left")
    temp_path(run.state_file(0)).write_text("the same")
    temp_path(run.path / "mine.keras").mkdir()
    return run


def test_default_directory_is_new_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = [create_run_dir(None, name="digits").path for _ in range(3)]
    assert len(set(made)) == 3
    for path in made:
        assert path.parent == tmp_path / "runs"
        assert re.fullmatch(r"digits-\d{8}-\d{6}(-\d)?", path.name)


@pytest.mark.parametrize(("name", "slug"), [("my model", "my-model"), ("a/../b", "a-..-b"), ("..", "run"), ("", "run")])
def test_default_directory_is_below_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, slug: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run = create_run_dir(None, name=name)
    assert run.path.parent == tmp_path / "runs"
    assert re.fullmatch(re.escape(slug) + r"-\d{8}-\d{6}", run.path.name)


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_new_or_empty_directory_is_taken(tmp_path: Path, exists: bool, overwrite: bool) -> None:
    if exists:
        (tmp_path / "deep" / "a").mkdir(parents=True)
    run = create_run_dir(tmp_path / "deep" / "a", name="digits", overwrite=overwrite)
    assert run.logs_dir.is_dir()
    assert entries(run.path) == ["state/run.json"]


def test_one_of_two_jobs_at_once_gets_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_run_dir(tmp_path / "a", name="digits")
    monkeypatch.setattr(os, "listdir", lambda path: [])  # as the other job saw it a moment before
    with pytest.raises(RunDirError, match="Another job has just begun.*own --run-dir"):
        create_run_dir(tmp_path / "a", name="digits")


def test_an_earlier_run_is_refused(earlier_run: RunDir) -> None:
    before = entries(earlier_run.path)
    with pytest.raises(RunDirError, match=r"earlier run.*config\.yaml.*--overwrite"):
        create_run_dir(earlier_run.path, name="digits")
    assert entries(earlier_run.path) == before


def test_overwrite_removes_the_earlier_run(earlier_run: RunDir) -> None:
    create_run_dir(earlier_run.path, name="other", overwrite=True)
    assert entries(earlier_run.path) == ["state/run.json"]
    assert json.loads(earlier_run.run_file.read_text())["name"] == "other"
    assert not earlier_run.events_dir.exists()


def test_overwrite_removes_nothing_else(earlier_run: RunDir) -> None:
    for name in STRANGERS:
        (earlier_run.path / name).write_text("mine")
    create_run_dir(earlier_run.path, name="digits", overwrite=True)
    assert entries(earlier_run.path) == sorted([*STRANGERS, "state/run.json"])


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_directory_that_tfdist_did_not_make_is_never_taken(tmp_path: Path, overwrite: bool) -> None:
    for name in ("config.yaml", "logs/worker-0.0.log", "model.keras"):  # tfdist's names, but not its files
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    before = entries(tmp_path)
    with pytest.raises(RunDirError, match=r"not made by tfdist.*config\.yaml.*another --run-dir"):
        create_run_dir(tmp_path, name="digits", overwrite=overwrite)
    assert entries(tmp_path) == before


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_file_in_the_way_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunDirError, match="is not a directory, or is below a file"):
        create_run_dir(tmp_path / place, name="digits")


def test_a_directory_without_permission_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tmp_path))

    monkeypatch.setattr(os, "mkdir", refuse)  # chmod does not stop root
    with pytest.raises(RunDirError, match="could not be written.*Permission denied.*--run-dir"):
        create_run_dir(tmp_path / "a", name="digits")


def test_a_full_disk_leaves_a_directory_that_can_be_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(atomic_files.os, "fsync", full)
        with pytest.raises(RunDirError, match="disk is full"):
            create_run_dir(tmp_path / "a", name="digits")
    create_run_dir(tmp_path / "a", name="digits")


def test_joining_a_shared_directory_changes_nothing(earlier_run: RunDir) -> None:
    before = {name: (earlier_run.path / name).read_text() for name in entries(earlier_run.path)}
    join_run_dir(earlier_run.path, name="digits")
    assert {name: (earlier_run.path / name).read_text() for name in entries(earlier_run.path)} == before


def test_joining_makes_a_directory_of_this_machine(tmp_path: Path) -> None:
    run = join_run_dir(tmp_path / "a", name="digits")
    write_text(run.log_file(1, 0), "line\n")
    write_text(run.state_file(1), "{}")
    create_run_dir(tmp_path / "a", name="digits", overwrite=True)  # the directory is still tfdist's
    assert entries(run.path) == ["state/run.json"]


def test_a_run_is_resumed_in_its_directory(earlier_run: RunDir) -> None:
    record = earlier_run.run_file.read_bytes()
    run = create_run_dir(earlier_run.path, name="digits", resume="must")
    assert run.run_file.read_bytes() == record
    for file in (run.history_file, run.metrics_file, run.model_file, run.log_file(0, 0), run.done_file):
        assert file.read_text() == "old"
    assert (run.checkpoints_dir / "step-00000005" / "model.weights.h5").exists()
    for file in (run.failure_file, run.state_file(0), run.error_file(0, 0)):
        assert not file.exists(), "of the start before"
    assert next_attempt(run) == 1


def test_resume_auto_without_a_run_starts_one(tmp_path: Path) -> None:
    run = create_run_dir(tmp_path / "new", name="digits", resume="auto")
    assert json.loads(run.run_file.read_text())["name"] == "digits"
    assert next_attempt(run) == 0


@pytest.mark.parametrize(
    ("path", "overwrite", "resume", "message"),
    [
        ("absent", False, "must", "There is no run to resume in .*absent"),
        (None, False, "must", "Expected the directory of one. Received: no --run-dir"),
        ("absent", True, "auto", "Expected one of them. Received: --overwrite --resume auto"),
    ],
)
def test_options_that_exclude_resume(
    path: str | None, overwrite: bool, resume: Resume, message: str, tmp_path: Path
) -> None:
    place = None if path is None else tmp_path / path
    with pytest.raises(RunDirError, match=message):
        create_run_dir(place, name="digits", overwrite=overwrite, resume=resume)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("resume", ["auto", "must"])
def test_a_directory_that_tfdist_did_not_make_is_not_resumed(resume: Resume, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunDirError, match="no run to resume|not made by tfdist"):
        create_run_dir(tmp_path, name="digits", resume=resume)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("start", ["overwrite", "resume", "join"])
@pytest.mark.parametrize(
    "name",
    [
        *("ledger.jsonl", "logs", "events", "checkpoints"),
        *("logs/worker-0.0.log", "events/train", "checkpoints/fit-2", "checkpoints/step-00000007"),
    ],
)
def test_links_are_refused_where_tfdist_writes(name: str, start: str, earlier_run: RunDir, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "worker-0.0.log").write_text("mine")
    link = earlier_run.path / name
    if link.is_dir():
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere)
    with pytest.raises(RunDirError, match=f"{link} is a symbolic link.*Received: a link to {elsewhere}"):
        if start == "join":
            join_run_dir(earlier_run.path, name="job")
        else:
            create_run_dir(earlier_run.path, name="job", overwrite=start == "overwrite",
                           resume="auto" if start == "resume" else "never")  # fmt: skip
    assert [file.read_text() for file in elsewhere.iterdir()] == ["mine"]


def test_the_run_directory_itself_may_be_a_link(earlier_run: RunDir, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(earlier_run.path)
    assert create_run_dir(tmp_path / "link", name="job", resume="auto").run_file.exists()
