from __future__ import annotations

import errno
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.helpers.made_checkpoints import cut, damage, folder_of, run_with, save
from tfdist.checkpoint.checkpoint_files import StoredCheckpoint
from tfdist.checkpoint.inspection import export
from tfdist.cli.main import main
from tfdist.launch.run_dir.run_lock import RunLock
from tfdist.rundir import RunDir, create_run_dir


def checkpoints(verb: str, run: RunDir, *options: str) -> Result:
    return CliRunner().invoke(main, ["checkpoints", verb, str(run), *options])


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return run_with(tmp_path / "a", 10, 15, 20)


def names(run: RunDir) -> list[str]:
    return sorted(folder.name for folder in run.checkpoints_dir.iterdir())


def test_ls(run: RunDir) -> None:
    cut(folder_of(run, 20) / "model.weights.h5")
    (folder_of(run, 10) / "checkpoint.json").unlink()
    lines = checkpoints("ls", run).stdout.splitlines()
    assert lines[0].split() == ["checkpoint", "step", "epoch", "size", "age", "val_loss", "loss", "whole"]
    assert [line.split()[:3] for line in lines[1:]] == [
        ["step-00000020", "20", "2"],
        ["step-00000015", "15", "1+5"],
        ["step-00000010", "10", "1"],
    ]
    assert "10 min" in lines[1] and "no: model.weights.h5 has " in lines[1]
    assert lines[2].split()[-3:] == ["2", "1", "yes"]
    assert lines[3].endswith("no: it was never finished, or is being written")


def test_ls_as_json(run: RunDir) -> None:
    document = json.loads(checkpoints("ls", run, "--json").stdout)
    assert [(entry["step"], entry["whole"], entry["metrics"]) for entry in document["checkpoints"]] == [
        (20, True, {"loss": 0.5, "val_loss": 1.0}),
        (15, True, {"loss": 1.0, "val_loss": 2.0}),
        (10, True, {"loss": 1.0, "val_loss": 2.0}),
    ]


@pytest.mark.parametrize("verb", ["ls", "inspect", "verify"])
def test_nothing_there(tmp_path: Path, verb: str) -> None:
    result = checkpoints(verb, create_run_dir(tmp_path / "a", name="digits"))
    assert result.exit_code == 2 and result.stderr.startswith("error: There is no checkpoint in ")
    result = checkpoints(verb, RunDir(tmp_path))
    assert result.exit_code == 2 and "is not a run directory" in result.stderr


def test_inspect(run: RunDir) -> None:
    text = checkpoints("inspect", run).stdout
    assert "position    20 steps of the run: 2 epochs and 0 steps" in text
    assert "layers/dense/0  [3, 4]  float32" in text
    document = json.loads(checkpoints("inspect", run, "--step", "15", "--json").stdout)
    assert document["variables"][0]["norm"] == pytest.approx(15 * 12**0.5)


def test_a_history_with_nan_and_infinity(run: RunDir) -> None:
    """Of a training that diverged; JSON has neither."""
    history = {"loss": [0.5, math.nan, 0.25], "mae": [math.nan] * 3, "val_loss": [math.inf, 2.0, math.nan]}
    save(run, 30, record={"history": history})
    lines = checkpoints("inspect", run).stdout.splitlines()
    begin = lines.index("history of 3 epochs")
    assert [line.split() for line in lines[begin + 2 : begin + 5]] == [
        ["loss", "0.5", "0.25", "0.5", "0.25"],
        ["mae", "-", "-", "-", "-"],
        ["val_loss", "-", "2", "2", "-"],
    ]

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    for verb in ("ls", "inspect"):
        json.loads(checkpoints(verb, run, "--json").stdout, parse_constant=refuse)
    assert checkpoints("ls", run).stdout.splitlines()[1].split()[-4:] == ["nan", "0.25", "nan", "yes"]


def test_inspect_against(run: RunDir) -> None:
    text = checkpoints("inspect", run, "--step", "20", "--against", "10").stdout
    assert "+10 steps" in text and text.endswith("1 of 2 variables are the same\n")


def test_inspect_skips_a_damaged_checkpoint_unless_it_is_chosen(run: RunDir) -> None:
    cut(folder_of(run, 20) / "model.weights.h5")
    assert "15 steps of the run" in checkpoints("inspect", run).stdout
    assert checkpoints("inspect", run, "--step", "20").exit_code == 5
    assert checkpoints("inspect", run, "--against", "20").exit_code == 5


def test_verify(run: RunDir) -> None:
    assert checkpoints("verify", run).exit_code == 0
    damage(folder_of(run, 20) / "model.weights.h5")
    damage(folder_of(run, 20) / "replicas.npz")
    (folder_of(run, 15) / "summary.json").unlink()
    result = checkpoints("verify", run)
    assert result.exit_code == 5
    first, second, third = result.stdout.splitlines()
    assert "the checksum of model.weights.h5" in first and "the checksum of replicas.npz" in first
    assert second == "step-00000015: summary.json cannot be read: No such file or directory"
    assert third == "step-00000010: whole"
    assert "error: 2 of 3 checkpoints are damaged: step-00000020, step-00000015." in result.stderr
    assert checkpoints("verify", run, "--step", "10", "--json").exit_code == 0
    assert checkpoints("verify", run, "--step", "20", "--json").exit_code == 5


def test_prune(run: RunDir) -> None:
    damage(folder_of(run, 20) / "model.weights.h5")
    result = checkpoints("prune", run, "--keep", "1", "--dry-run")
    assert result.stdout.startswith("would remove step-00000010, ")
    assert len(names(run)) == 3
    result = checkpoints("prune", run, "--keep", "1")
    assert result.stdout.startswith("removed step-00000010, ")
    assert names(run) == ["step-00000015", "step-00000020"]
    assert checkpoints("prune", run, "--keep", "0").exit_code == 2


def test_prune_names_what_it_could_not_remove(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    rmtree = shutil.rmtree

    def refuse(path: Path) -> None:
        if path == folder_of(run, 15):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        rmtree(path)

    monkeypatch.setattr(shutil, "rmtree", refuse)
    result = checkpoints("prune", run, "--keep", "1")
    assert result.exit_code == 2 and "1 of 2 checkpoints could not be removed" in result.stderr
    assert result.stdout.startswith("removed step-00000010, ") and "\n1 of 3 checkpoints, " in result.stdout


def test_prune_leaves_what_the_config_keeps_for_good(run: RunDir) -> None:
    run.config_file.write_text("checkpoint: {every_steps: 5, keep_every_steps: 10}")
    assert checkpoints("prune", run, "--keep", "1").stdout.startswith("removed step-00000015, ")
    assert names(run) == ["step-00000010", "step-00000020"]


def test_checkpoints_in_another_directory(run: RunDir, tmp_path: Path) -> None:
    run.checkpoints_dir.rename(tmp_path / "elsewhere")
    run.config_file.write_text(f"checkpoint: {{directory: {tmp_path / 'elsewhere'}}}")
    assert "step-00000020" in checkpoints("ls", run).stdout
    run.config_file.write_text("checkpoint: {directory: gs://bucket/a}")
    result = checkpoints("ls", run)
    assert result.exit_code == 2 and "lie in gs://bucket/a" in result.stderr


@pytest.mark.parametrize("section", ["{keep_all: true}", "{keep: 0}", "latest"])
def test_a_config_of_another_version_is_one_error(run: RunDir, section: str) -> None:
    run.config_file.write_text(f"checkpoint: {section}")
    result = checkpoints("ls", run)
    assert result.exit_code == 2 and f"{run.config_file} does not say where" in result.stderr
    assert "checkpoint" in result.stderr and "Traceback" not in result.stderr


NO_CONFIGS = [b"a: &a [x]\nb: *c", b"made: 2001-99-99", b"\xff", b"[" * 10_000, b"a: " + b"1" * 5000, b"[]", b""]


@pytest.mark.parametrize("content", [*NO_CONFIGS, b"x" * (1 << 20)], ids=lambda content: str(content[:20]))
def test_a_config_that_is_none_is_one_error(run: RunDir, content: bytes) -> None:
    run.config_file.write_bytes(content)
    result = checkpoints("ls", run)
    assert result.exit_code == 2 and f"error: {run.config_file} cannot be used" in result.stderr


@pytest.mark.parametrize("target", ["/dev/zero", "/etc/passwd"])
def test_a_config_that_is_a_link_is_not_followed(run: RunDir, target: str) -> None:
    run.config_file.symlink_to(target)
    result = checkpoints("ls", run)
    assert result.exit_code == 2 and "symbolic link" in result.stderr


def test_the_fits_of_a_script(run: RunDir) -> None:
    fit = run.checkpoints_dir / "fit-2"
    fit.mkdir()
    folder_of(run, 20).rename(fit / "step-00000020")
    first = checkpoints("ls", run).stdout
    assert "step-00000020" not in first and first.endswith("other fits have checkpoints too: --fit 2\n")
    assert checkpoints("ls", run, "--fit", "2").stdout.splitlines()[1].startswith("step-00000020")
    assert checkpoints("verify", run, "--fit", "2").stdout == "step-00000020: whole\n"
    assert checkpoints("inspect", run, "--fit", "3").exit_code == 2


def test_a_run_that_is_still_running_is_pruned_only_with_live(run: RunDir) -> None:
    with RunLock() as hold:
        hold.take(run)
        result = checkpoints("prune", run, "--keep", "1")
        assert result.exit_code == 2 and "is still running" in result.stderr
        assert len(names(run)) == 3
        result = checkpoints("prune", run, "--keep", "1", "--live")
        assert result.exit_code == 0 and result.stderr == f"the run in {run} is still running\n"
    assert names(run) == ["step-00000020"]


def test_export_weights(run: RunDir, tmp_path: Path) -> None:
    target = tmp_path / "a.weights.h5"
    assert checkpoints("export", run, str(target), "--step", "15").exit_code == 0
    assert target.read_bytes() == (folder_of(run, 15) / "model.weights.h5").read_bytes()
    result = checkpoints("export", run, str(target))
    assert result.exit_code == 2 and "exists already" in result.stderr


def test_an_unreadable_checkpoint_is_not_blamed_on_the_exported_file(
    run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = folder_of(run, 20) / "model.weights.h5"

    def checked(checkpoint: StoredCheckpoint) -> None:
        weights.unlink()

    monkeypatch.setattr(export, "weights_fault", checked)
    result = checkpoints("export", run, str(tmp_path / "a.weights.h5"))
    assert result.exit_code == 5 and f"{weights} cannot be read: No such file" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


def test_export_refuses(run: RunDir, tmp_path: Path) -> None:
    assert checkpoints("export", run, str(tmp_path / "a.h5")).exit_code == 2
    result = checkpoints("export", run, str(tmp_path / "absent" / "a.weights.h5"))
    assert result.exit_code == 2 and f"there is no directory {tmp_path}/absent" in result.stderr
    assert "choose another DEST" in result.stderr and "--run-dir" not in result.stderr and ".tmp" not in result.stderr
    damage(folder_of(run, 20) / "model.weights.h5")
    assert checkpoints("export", run, str(tmp_path / "a.weights.h5")).exit_code == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


def test_a_model_is_not_built_for_a_folder_that_is_missing(
    run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfdist.cli.checkpoints._load_model", lambda *_: pytest.fail("it was built"))
    result = checkpoints("export", run, str(tmp_path / "absent" / "a.keras"))
    assert result.exit_code == 2 and f"there is no directory {tmp_path}/absent" in result.stderr


def test_names_in_files_cannot_control_the_terminal(run: RunDir) -> None:
    save(run, 30, record={"history": {"\x1b[2J": [1.0]}})
    assert "\x1b" not in checkpoints("ls", run).stdout + checkpoints("inspect", run).stdout


def test_ls_verify_and_prune_load_neither_tensorflow_nor_numpy(run: RunDir) -> None:
    script = (
        "import sys\nfrom tfdist.cli.main import main\n"
        "for verb in (['ls'], ['verify'], ['prune', '--keep', '1']):\n"
        "    main(['checkpoints', *verb, sys.argv[1]], standalone_mode=False)\n"
        "print(sorted({'tensorflow', 'keras', 'numpy', 'h5py'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", script, str(run)], capture_output=True, text=True, timeout=150)
    assert result.stdout.splitlines()[-1] == "[]", result.stderr
