"""Scripts that know nothing of tfdist, or little, run on two workers as python runs them on one device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.helpers.cli_process import ROOT, tfdist, tfdist_with_closed_streams
from tests.helpers.marks import slow
from tests.workers.worker_scripts import BOUND, SCRIPTS, assert_close, said, train


def test_what_python_gives_a_script(tmp_path: Path) -> None:
    script = tmp_path / "link.py"
    script.symlink_to(SCRIPTS / "surroundings.py")
    arguments = ["--epochs", "3", "--run-dir", "x", "--help", "3"]
    done = tfdist("train", "--nproc", 2, "--run-dir", "run", "link.py", *arguments, cwd=tmp_path, timeout=BOUND)
    assert done.returncode == 3, done.stderr
    for index in range(2):
        assert said(tmp_path / "run", index) == {
            "argv": ["link.py", *arguments],
            "name": "__main__",
            "file": str(script),
            "package": "",
            "is_main": True,
            "path": str(SCRIPTS),
            "cwd": str(tmp_path),
            "stdin": "",
            "beside": 42,
            "annotation": True,
            "replicas": 2,
            "backend": "tensorflow",
        }
    # The chief's output is on the terminal, the other worker's in its log; both ran their exit handlers.
    assert done.stdout.count("last words of __main__") == 1
    warned, begun, ended = done.stderr.splitlines()
    assert warned.startswith("warning: --run-dir is an option of `tfdist train`, and what stands behind link.py goes")
    assert begun.startswith("tfdist: 2 workers, 2 replicas on CPUs (MultiWorkerMirroredStrategy, shm, ")
    assert begun.endswith(f"; run directory {tmp_path / 'run'}")
    assert ended.startswith("tfdist: the script ended with exit code 3 after ")
    assert ended.endswith(f"; logs in {tmp_path / 'run' / 'logs'}")
    for index in range(2):
        assert "last words of __main__" in (tmp_path / "run" / "logs" / f"worker-{index}.0.log").read_text()


def test_a_worker_of_several_is_debugged(tmp_path: Path) -> None:
    script = tmp_path / "stops.py"
    script.write_text(
        "import tfdist\nme = tfdist.worker_index()\nbreakpoint()\n"
        "got = tfdist.broadcast_object(int(input('N: ')) if me == 1 else None, root=1)\nassert got == 6\n"
    )
    command = [sys.executable, "-m", "tfdist", "train", "--nproc", "2", "--debug-worker", "1", "--quiet", script]
    given = {"cwd": tmp_path, "timeout": BOUND, "text": True, "capture_output": True}
    done = subprocess.run(command, input="p 40 + me\nc\n6\n", env={**os.environ, "PYTHONPATH": str(ROOT)}, **given)
    assert (done.returncode, done.stdout.count("(Pdb) 41")) == (0, 1), done.stderr


def test_a_script_without_standard_streams(tmp_path: Path) -> None:
    script = tmp_path / "prints.py"
    script.write_text("import sys\nprint('to stdout')\nprint('to stderr', file=sys.stderr)\n")
    assert tfdist_with_closed_streams("train", "--run-dir", "run", "prints.py", cwd=tmp_path, timeout=BOUND) == 0
    log = (tmp_path / "run" / "logs" / "worker-0.0.log").read_text()
    assert "to stdout\n" in log and "to stderr\n" in log


@pytest.mark.slow
def test_a_module_that_exits_with_text(tmp_path: Path) -> None:
    arguments = ["-m", "package.member", "--workers", "x"]
    done = tfdist(
        "train", "--quiet", "--nproc", 2, "--run-dir", tmp_path / "run", *arguments, cwd=SCRIPTS, timeout=BOUND
    )
    assert done.returncode == 1
    assert done.stderr == "no more to do\n"  # and nothing of tfdist's, which is quiet
    for index in range(2):
        assert said(tmp_path / "run", index) == {
            "argv": [str(SCRIPTS / "package" / "member.py"), "--workers", "x"],
            "name": "__main__",
            "package": "package",
            "path": str(SCRIPTS),
        }


@pytest.mark.parametrize(
    ("how", "last", "frames"),
    [("function", 'KeyError: "the script\'s own"', 2), slow("syntax", "SyntaxError: invalid syntax", 1)],
)
def test_an_exception_of_the_script(tmp_path: Path, how: str, last: str, frames: int) -> None:
    done = tfdist("train", "--run-dir", tmp_path / "run", SCRIPTS / "raises.py", how, timeout=BOUND)
    assert done.returncode == 4
    assert done.stdout == ""
    assert done.stderr.count("Traceback (most recent call last)") == 1
    assert last in done.stderr
    assert done.stderr.count(f'File "{SCRIPTS / "raises.py"}", line') == frames
    assert "tfdist/training" not in done.stderr
    assert "runpy" not in done.stderr


def test_batches_and_loops_of_the_scripts_own(tmp_path: Path) -> None:
    (one,) = train(tmp_path / "one", "loops.py", workers=1)
    for worker in train(tmp_path / "two", "loops.py", "tape", code=2):
        assert_close(one, worker)
    failure = json.loads((tmp_path / "two" / "failure.json").read_text())
    assert "strategy().run(" in failure["message"]
    assert f"in {SCRIPTS / 'loops.py'}, line" in failure["message"]


def test_what_the_chief_alone_saves_and_all_restore(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for worker in train(tmp_path / "run", "saving_alone.py", files):
        assert set(worker["differences"].values()) == {0.0}, worker


@pytest.mark.slow
def test_a_save_that_fails_leaves_the_earlier_file(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    first, second = train(tmp_path / "run", "failing_saves.py", files, code=4)
    assert len(first["errors"]) == 2
    assert all("missing" in error for error in first["errors"])
    assert second["errors"] == []
    assert [path.name for path in files.iterdir()] == ["model.keras"]
    assert not keras.saving.load_model(files / "model.keras").layers[0].bias.numpy().any()
    failure = json.loads((tmp_path / "run" / "failure.json").read_text())
    assert failure["index"] == 0
    assert "File too large" in failure["message"]
    assert "model.keras could not be saved; what was there before is as it was." in failure["traceback"]


@pytest.mark.parametrize(
    ("options", "kind", "is_other"),
    [
        slow(["--nproc", "2"], "MultiWorkerMirroredStrategy", False),
        (["--logical-devices", "2"], "MirroredStrategy", False),
        (["--nproc", "2"], "MirroredStrategy", True),
        slow(["--logical-devices", "2"], "MultiWorkerMirroredStrategy", True),
    ],
)
def test_a_script_with_a_strategy_of_its_own(tmp_path: Path, options: list[str], kind: str, is_other: bool) -> None:
    done = tfdist("train", *options, "--run-dir", tmp_path, SCRIPTS / "own_strategy.py", kind, timeout=BOUND)
    assert done.returncode == 0, done.stderr
    result = said(tmp_path, 0)
    losses = result.pop("losses")
    assert losses[0] == losses[1], "clear_session() took the strategy away"
    assert result == {"is_instance": not is_other, "is_other": False, "replicas": 2, "current": True}
    assert done.stderr.count(f"the {kind} that the script makes is the job's strategy, ") == is_other
    for setting in ("threading.set_intra_op_parallelism_threads", "set_logical_device_configuration"):
        assert done.stderr.count(f"tfdist: tf.config.{setting} in the script is ignored") == 1


@pytest.mark.slow
def test_a_strategy_of_another_kind_with_strict(tmp_path: Path) -> None:
    done = tfdist("train", "--strict", "--nproc", 2, "--run-dir", tmp_path, SCRIPTS / "own_strategy.py",
                  "MirroredStrategy", timeout=BOUND)  # fmt: skip
    assert done.returncode != 0
    assert "is the job's strategy, MultiWorkerMirroredStrategy of 2 replicas. That is refused with" in done.stderr


@pytest.mark.slow
def test_a_strategy_that_does_not_fit(tmp_path: Path) -> None:
    done = tfdist("train", "--nproc", 2, "--memory-limit", 100, "--run-dir", tmp_path, SCRIPTS / "own_strategy.py",
                  "OneDeviceStrategy", timeout=BOUND)  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.count("The memory limit of 100 MiB (--memory-limit,") == 1  # there is no GPU
    here = "this run has 2 workers, under MultiWorkerMirroredStrategy. "
    assert f"The script makes a OneDeviceStrategy, and {here}" in done.stderr
    assert "tfdist.strategy()" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "arguments", "own"),
    [
        slow([], [], False),
        (["--batch-norm", "replica"], [], True),
        slow([], ["replica"], True),
        slow(["--batch-norm", "replica"], ["synchronized"], False),
    ],
)
def test_whose_statistics_are_normalized_by(
    options: list[str], arguments: list[str], own: bool, tmp_path: Path
) -> None:
    """Of the second batch the first worker has the one sample, and keeps half of what it had."""
    done = tfdist("train", "--nproc", 2, *options, "--run-dir", tmp_path / "run", SCRIPTS / "normalizing.py",
                  *arguments, timeout=BOUND)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("takes its statistics on each replica alone") == own
    x = np.random.default_rng(1).normal(size=(33, 4))
    assert_close({"mean": (x[: 16 if own else 32].mean(axis=0) / 4 + x[32] / 2).tolist()}, said(tmp_path / "run", 0))
