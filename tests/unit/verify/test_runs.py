"""The jobs that the runs of a verification are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tfdist.config import load_config
from tfdist.errors import UsageError
from tfdist.verify.killing.kill_plan import KillSpec
from tfdist.verify.replicas.variants import VerifySpec
from tfdist.verify.runs import TargetSpec, last_line, open_folder

KILLED_INSIDE = """
import os, signal, sys
from tfdist.verify.runs import open_folder
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
    done = subprocess.run(command, env={**os.environ, "TMPDIR": str(temporary)}, timeout=150)
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


NOISE = b"W0101 00:00:00.000000     12 x.cc:1] a warning\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", ""),
        (b"one\ntwo\n\n", "two"),
        (b"1/3\r2/3\r3/3", "3/3"),
        (b"mine\n" + NOISE, "mine"),
        (b"x" * 100 + b"\nlast\n", "last"),
        (b"first\n" + NOISE * 3, ""),  # its end alone is read
        (b"x" * 100, "x" * 80),
        (b"\xff\n", "\ufffd"),
    ],
)
def test_the_last_line(content: bytes, expected: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(content)
    assert last_line(tmp_path / "log", tail_bytes=80) == expected


def test_no_log(tmp_path: Path) -> None:
    assert last_line(tmp_path / "log") == ""


CONFIG = """
model: {build: tfdist.models.mlp, args: {inputs: [4], hidden: [2], classes: 3}}
compile: {optimizer: sgd, loss: sparse_categorical_crossentropy}
data: {batch_size: 8, train: {format: npz, path: x.npz, split: train}}
checkpoint: {every_steps: 7, directory: kept/elsewhere}
"""


@pytest.mark.parametrize("kind", [VerifySpec, KillSpec])
@pytest.mark.parametrize("own", [(), ("checkpoint.directory=/another/place", "fit.epochs=2")])
def test_checkpoints_of_a_verified_config_stay_in_its_run_directory(
    kind: type[TargetSpec], own: tuple[str, ...], tmp_path: Path
) -> None:
    """Those of the user's run are neither resumed nor removed."""
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    config = load_config(file, own)
    job = kind("config", str(file), "digits", config=config).job(2, tmp_path / "run")
    assert job.config is not None
    assert (job.config.checkpoint.directory, job.config.checkpoint.every_steps) == (None, 7)
    assert job.config.fit == config.fit


def test_the_command_line_comes_before_the_config(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"{CONFIG}seed: 5\ndevices: {{logical: 2, memory_limit: 100}}\n")
    spec = VerifySpec("config", str(file), "digits", config=load_config(file), seed=3, memory_limit=64)
    job = spec.job(1, tmp_path / "run")
    assert (job.seed, job.logical_devices, job.memory_limit) == (3, 2, 64)


def test_a_script_has_no_config(tmp_path: Path) -> None:
    job = KillSpec("script", "train.py", "train", args=("--x",)).job(1, tmp_path)
    assert (job.args, job.config) == (("--x",), None)


def test_it_runs_on_this_machine_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = '{"cluster": {"worker": ["far:1", "away:2"]}, "task": {"type": "worker", "index": 0}}'
    monkeypatch.setenv("TF_CONFIG", cluster)
    job = VerifySpec("script", "train.py", "train", show="all", keep="kept").job(3, tmp_path, communication="ring")
    assert (job.membership.num_workers, list(job.membership.local)) == (3, [0, 1, 2])
    assert (job.show, job.communication, job.run_dir) == ("all", "ring", str(tmp_path))
