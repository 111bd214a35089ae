"""Run directories in which files are damaged or somebody else's: shown or refused, and nothing in them is lost."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import strategies as st

from tests.fuzz.contents import contents_of
from tests.fuzz.hostile_values import changed_bytes, changed_json
from tests.fuzz.properties import fuzzed
from tests.fuzz.valid_files import run_of_everything
from tfdist.board.board_folder import BoardFolder, UnknownRunError, key_of
from tfdist.board.list_answers import compare_answer, list_answer
from tfdist.board.run_answers import log_answer, run_answer
from tfdist.cli.main import main
from tfdist.errors import RunDirError
from tfdist.launch.environment import Assignment
from tfdist.launch.requeue_policy import RequeuePolicy, is_saved, read_starts
from tfdist.launch.run_dir.run_location import create_run_location
from tfdist.rundir import RunDir
from tfdist.rundir.run_snapshot import read_run

VERBS = (
    ("status",), ("status", "--json"), ("ledger",), ("ledger", "--json"), ("ledger", "--html", "HTML"),
    ("checkpoints", "ls"), ("checkpoints", "ls", "--json"), ("checkpoints", "prune", "--keep", "1", "--dry-run"),
)  # fmt: skip
"""All that show a run directory."""

NAMES = ("worker-99999999999.json", "worker-7.json", "worker-٣.json", "worker-1.99999999999999999999.log")


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    return run_of_everything(tmp_path_factory.mktemp("valid") / "a")


READ = (
    "state/worker-0.json", "state/worker-1.json", "state/job.json", "state/run.json", "state/failure.0.json",
    "state/worker-1.0.error.json", "failure.json", "ledger.jsonl", "config.yaml", "state/done.json", "resumes.jsonl",
    "metrics.jsonl",
)  # fmt: skip


@contextlib.contextmanager
def changed_run(valid: RunDir, folder: Path, data: st.DataObject) -> Iterator[RunDir]:
    """A copy of a run directory with some files changed, as drawn."""
    run = RunDir(folder / "b")
    shutil.rmtree(run.path, ignore_errors=True)
    shutil.copytree(valid.path, run.path)
    for name in data.draw(st.lists(st.sampled_from(READ), min_size=1, max_size=3, unique=True), "files"):
        change(run.path / name, data)
    for name in data.draw(st.lists(st.sampled_from(NAMES), max_size=1), "more"):
        (run.logs_dir if name.endswith("log") else run.state_dir).joinpath(name).write_text("{}")
    yield run


def change(file: Path, data: st.DataObject) -> None:
    content = file.read_bytes()
    acts = ("json", "json", "json", "bytes", "bytes", "link", "device", "pipe", "folder", "gone")
    act = data.draw(st.sampled_from(acts), file.name)
    if act == "json" and file.suffix == ".jsonl":
        lines = [json.loads(line) for line in content.splitlines()]
        drawn = data.draw(st.lists(changed_json(*lines), min_size=1, max_size=4))
        whole = content.splitlines()
        place = data.draw(st.integers(0, len(whole)))
        file.write_bytes(b"\n".join([*whole[:place], *drawn, *whole[place:]]))
        return
    if act == "json" and file.suffix == ".json":
        file.write_bytes(data.draw(changed_json(json.loads(content))))
    elif act in ("json", "bytes"):
        file.write_bytes(data.draw(changed_bytes(content)))
    else:
        file.unlink()
    if act == "link":
        file.symlink_to("/proc/self/environ")
    elif act == "device":
        file.symlink_to("/dev/zero")
    elif act == "pipe":
        os.mkfifo(file)
    elif act == "folder":
        file.mkdir()


@fuzzed(25, data=st.data())
def test_what_is_shown_of_a_run(valid: RunDir, tmp_path: Path, data: st.DataObject) -> None:
    with changed_run(valid, tmp_path, data) as run:
        before = contents_of(run.path)
        for verb in data.draw(st.lists(st.sampled_from(VERBS), min_size=1, max_size=3, unique=True), "verbs"):
            arguments = [str(tmp_path / "a.html") if part == "HTML" else part for part in verb]
            place = 2 if verb[0] == "checkpoints" else 1
            result = CliRunner().invoke(main, [*arguments[:place], str(run), *arguments[place:]])
            assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
            assert result.exit_code in (0, 2, 4, 5), result.output
            assert result.exit_code == 0 or result.stderr.startswith("error: "), result.stderr
        assert contents_of(run.path) == before


@fuzzed(25, data=st.data())
def test_what_the_board_answers_of_a_run(valid: RunDir, tmp_path: Path, data: st.DataObject) -> None:
    with changed_run(valid, tmp_path, data) as run:
        before = contents_of(run.path)
        folder = BoardFolder(tmp_path)
        for answer in (
            lambda: list_answer(folder, 0, ""),
            lambda: run_answer(folder.find(key_of(run.path))),
            lambda: log_answer(run.path, 0, 0, with_tf=True),
            lambda: compare_answer([run.path, valid.path]),
        ):
            with contextlib.suppress(RunDirError, UnknownRunError):
                assert len(json.dumps(answer(), allow_nan=False)) < 1 << 22
        assert contents_of(run.path) == before


@fuzzed(25, data=st.data())
def test_the_starts_of_a_run(valid: RunDir, tmp_path: Path, data: st.DataObject) -> None:
    with changed_run(valid, tmp_path, data) as run:
        before = contents_of(run.path)
        with contextlib.suppress(RunDirError):
            starts = read_starts(run)
            assert RequeuePolicy().idle_starts(starts, is_saved=is_saved(run)) <= len(starts)
        assert contents_of(run.path) == before


@fuzzed(15, data=st.data())
def test_a_run_that_is_resumed_by_its_launcher(valid: RunDir, tmp_path: Path, data: st.DataObject) -> None:
    """Its states are those of an earlier start, and go; nothing else does. Its ledger gets what a killed one lacks."""
    with changed_run(valid, tmp_path, data) as run:
        before = contents_of(run.path)
        with contextlib.suppress(RunDirError):
            found = create_run_location(str(run), name="digits", overwrite=False, seed=None, resume="auto")
            Assignment(str(run), found.seed, 0, 1, "script", "x.py", attempt=found.attempt).to_environ({})
            assert read_run(run).run == run
        after = contents_of(run.path)
        own = {name for name in before if name.startswith("state/") or name == "failure.json"}
        ledger = before.pop("ledger.jsonl", b"")
        assert after.get("ledger.jsonl", b"")[: len(ledger)] == ledger
        assert {name: after.get(name) for name in before if name not in own} == {
            name: content for name, content in before.items() if name not in own
        }
