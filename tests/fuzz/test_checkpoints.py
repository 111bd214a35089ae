"""Whole checkpoints whose files were changed, with a marker that fits them or not."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import strategies as st

from tests.fuzz.contents import contents_of
from tests.fuzz.hostile_values import changed_bytes, changed_json
from tests.fuzz.properties import fuzzed
from tests.helpers.made_checkpoints import folder_of, mark, run_with, shard
from tfdist.checkpoint.checkpoint_contents import CheckpointSummary, contents_fault, load_arrays
from tfdist.checkpoint.checkpoint_files import MARKER, REPLICAS, SUMMARY, WEIGHTS, stored, summary_of
from tfdist.checkpoint.checkpoint_pruner import info_of
from tfdist.checkpoint.shards.joined_file import REST, SHARD_TABLE, shard_file_name
from tfdist.cli.main import main
from tfdist.errors import RunDirError
from tfdist.rundir import RunDir

NAMES = {
    "whole": (MARKER, SUMMARY, WEIGHTS, REPLICAS),
    "in parts": (MARKER, SUMMARY, SHARD_TABLE, REST, shard_file_name(0, 2), shard_file_name(1, 2)),
}
VERBS = (
    ("ls",), ("ls", "--json"), ("verify",), ("verify", "--json"), ("inspect", "--step", "20"),
    ("inspect", "--step", "20", "--json"), ("inspect", "--step", "20", "--against", "10"),
    ("export", "--step", "20", "OUT"), ("prune", "--keep", "1", "--dry-run"),
)  # fmt: skip


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunDir]:
    runs = {kind: run_with(tmp_path_factory.mktemp("valid") / "a", 10, 20) for kind in NAMES}
    shard(folder_of(runs["in parts"], 20), 2)
    return runs


@pytest.mark.parametrize("kind", NAMES)
@fuzzed(25, data=st.data())
def test_a_checkpoint_is_used_or_refused(
    valid: dict[str, RunDir], kind: str, tmp_path: Path, data: st.DataObject
) -> None:
    run = RunDir(tmp_path / "b")
    shutil.rmtree(run.path, ignore_errors=True)
    shutil.copytree(valid[kind].path, run.path)
    latest = folder_of(run, 20)
    for name in data.draw(st.lists(st.sampled_from(NAMES[kind]), min_size=1, max_size=2, unique=True)):
        content = (latest / name).read_bytes()
        as_json = name in (MARKER, SUMMARY, SHARD_TABLE) and data.draw(st.booleans())
        (latest / name).write_bytes(
            data.draw(changed_json(json.loads(content)) if as_json else changed_bytes(content))
        )
        if name != MARKER and data.draw(st.sampled_from((True, True, False))):
            mark(latest)
    before = contents_of(run.path)
    for checkpoint in stored(run.checkpoints_dir):
        info_of(checkpoint)
        if checkpoint.fault() is None and contents_fault(checkpoint) is None:
            CheckpointSummary.from_dict(json.loads(json.dumps(summary_of(checkpoint))))
            load_arrays(checkpoint.path / REPLICAS)
    for verb in data.draw(st.lists(st.sampled_from(VERBS), min_size=1, max_size=3, unique=True)):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        (tmp_path / "out").mkdir()
        options = [str(tmp_path / "out" / "a.h5") if option == "OUT" else option for option in verb[1:]]
        result = CliRunner().invoke(main, ["checkpoints", verb[0], str(run), *options])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        assert result.exit_code in (0, 2, 5), result.output
        assert result.exit_code == 0 or result.stderr.startswith("error: "), result.stderr
    with contextlib.suppress(RunDirError):
        assert stored(run.checkpoints_dir)[-1].fault() is None, "the one before is whole"
    assert contents_of(run.path) == before
