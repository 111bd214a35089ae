"""What `tfdist completion` prints completes words in the shell that reads it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tfdist.cli.main import VERBS, main

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_it_prints_what_the_shell_reads(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert (result.exit_code, result.stderr) == (0, "")
    assert "_TFDIST_COMPLETE" in result.stdout and f"{shell}_complete" in result.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=result.stdout, text=True, check=True, timeout=150)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("tfdist ", {f"plain,{verb}" for verb in VERBS}),
        ("tfdist ch", {"plain,checkpoints"}),
        ("tfdist config s", {"plain,schema", "plain,show"}),
        ("tfdist train --sha", {f"plain,--shar{end}" for end in ("e-gpu", "d", "d-over", "d-embeddings")}),
        ("tfdist train --shard ", {f"plain,{value}" for value in ("none", "zero1", "zero2", "zero3")}),
        ("tfdist train --nproc 2 tr", {"file,tr"}),
        ("tfdist train --run-dir ru", {"file,ru"}),
        ("tfdist verify --re", {"plain,--replicas"}),
        ("tfdist ledger ru", {"file,ru"}),
    ],
)
def test_a_word_becomes_what_it_may_be(words: str, expected: set[str]) -> None:
    typed = words.split(" ")
    asked = {"_TFDIST_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(typed) - 1)}
    result = CliRunner().invoke(main, [], env=asked, prog_name="tfdist")
    assert set(result.output.splitlines()) == expected


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_by_it(tmp_path: Path) -> None:
    program = tmp_path / "tfdist"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tfdist "$@"\n')
    program.chmod(0o755)
    script = """
        eval "$(tfdist completion bash)"
        COMP_WORDS=(tfdist sta) COMP_CWORD=1
        _tfdist_completion tfdist
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    environ = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", script], env=environ, capture_output=True, text=True, timeout=150, check=True)
    assert done.stdout.split() == ["status"], done.stderr
