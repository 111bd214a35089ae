from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tfdist.cli.help.misplaced_options import misplaced_options
from tfdist.cli.main import main

KNOWN = {"--nproc", "--logical-devices", "--overwrite"}


@pytest.fixture(autouse=True)
def _scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.py").write_text("import keras\nimport settings\n")
    Path("settings.py").write_text("EPOCHS = 3\n")
    Path("own.py").write_text('parser.add_argument("--nproc", type=int)\n')
    Path("spread.py").write_text("from flags import parser\n")
    Path("flags.py").write_text('DEFINE_integer("logical_devices", 1)\n')
    Path("package").mkdir()
    Path("package/train.py").write_text("import keras\n")


@pytest.mark.parametrize(
    ("module", "arguments", "found"),
    [
        (None, "tiny.py --nproc 2 --epochs 3 --overwrite", ["--nproc", "--overwrite"]),
        (None, "tiny.py --nproc=2", ["--nproc"]),
        (None, "tiny.py --epochs 3", []),
        (None, "tiny.py -- --nproc 2", []),
        (None, "own.py --nproc 2 --overwrite", ["--overwrite"]),
        (None, "spread.py --logical-devices 2", []),
        (None, "absent.py --nproc 2", []),
        (None, "digits.yaml --nproc 2", []),
        ("package.train", "--nproc 2", ["--nproc"]),
        ("absent.module", "--nproc 2", []),
        (None, "", []),
    ],
)
def test_options_of_the_verb_that_a_script_does_not_know(module: str | None, arguments: str, found: list[str]) -> None:
    assert misplaced_options(module, arguments.split(), KNOWN) == found


@pytest.mark.parametrize("verb", ["train", "verify"])
def test_a_verb_warns_of_them_and_goes_on(verb: str) -> None:
    said = CliRunner().invoke(main, [verb, "--devices", "x,y", "tiny.py", "--nproc", "2"])
    assert "expected numbers of GPUs" in said.stderr  # a mistake before it comes first
    said = CliRunner().invoke(main, [verb, "--run-dir=", "tiny.py", "--nproc", "2"] if verb == "train" else [
        verb, "--report", "absent/report.json", "tiny.py", "--nproc", "2"])  # fmt: skip
    assert f"warning: --nproc is an option of `main {verb}`, and what stands behind tiny.py goes to that" in said.stderr
    assert "error: " in said.stderr
