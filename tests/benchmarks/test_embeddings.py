"""Tests of the benchmark of tables that are cut between workers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import embeddings


@pytest.mark.slow
@pytest.mark.bound(300)
def test_both_train_the_same_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "table.md"
    arguments = ["--rows", "3e4", "--dim", "4", "--batch", "16", "--steps", "2", "--out", str(out)]
    assert embeddings.main(arguments) == 0
    said = capsys.readouterr().out
    assert said.strip() == out.read_text().strip() and "30,000 rows of 4 floats" in said
    losses = [float(line.split("|")[-2]) for line in said.splitlines() if re.match(r"\| (sharded|replicated)", line)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4) and losses[0] > 0


@pytest.mark.slow
def test_one_that_fails_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert embeddings.main(["--optimizer", "lamb", "--contestants", "sharded", "--steps", "1", "--batch", "8"]) == 1
    assert re.search(r"\| sharded \| +failed \|", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows", "many"], "expected a number of rows, such as 2e7. Received: 'many'"),
        (["--workers", "0"], "--workers: expected a whole number of 1 or more. Received: 0"),
        (["--contestants", "sharded,halved"], "expected some of sharded, replicated. Received: halved"),
    ],
)
def test_bad_options(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        embeddings.main(arguments)
    assert end.value.code == 2 and message in capsys.readouterr().err


def test_an_absent_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert embeddings.main(["--out", "/nowhere/at/all.md"]) == 2
    assert "there is no directory /nowhere/at" in capsys.readouterr().err
