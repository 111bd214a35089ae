from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks import ddp
from benchmarks.comparison import common_options
from benchmarks.comparison.torch_python import ABSENT, TorchPython


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common_options, "find_torch", lambda path, changed: None)


@pytest.mark.usefixtures("without_torch")
@pytest.mark.slow
def test_contestants_are_run_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--workers", "1", "--rounds", "1", "--steps", "2", "--contestants", "tfdist,apart"]
    assert ddp.main(["mlp", *options, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert ABSENT in printed and "mlp, 1 worker, round 1 of 1: tfdist " in printed
    figures = json.loads((tmp_path / "ddp.json").read_text())
    (cell,) = figures["cells"]
    assert (cell["model"], cell["workers"], cell["steps"], figures["torch"]) == ("mlp", 1, 2, None)
    for contestant in cell["contestants"].values():
        assert contestant["failure"] is None and contestant["steps_per_second"][0] > 0
        assert contestant["said"][0][0]["parameters"] == 669_706
    assert (tmp_path / "ddp.md").read_text() in printed
    assert (tmp_path / "ddp.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["mlpp"], "expected models of mlp, wide, cnn, transformer, embedding. Received: 'mlpp'"),
        (["--workers", "0"], "expected a whole number from 1. Received: '0'"),
        (["--workers", "2,2"], "expected each number once. Received: '2,2'"),
        (["--workers", "3"], "expected numbers that divide the global batch of 256. Received: 3"),
        (["--cores", "0,999"], "expected some of the cores"),
        (["--rounds", "x"], "expected a whole number from 1. Received: 'x'"),
        (["--limit", "inf"], "expected a number of seconds above 0. Received: 'inf'"),
        (["--contestants", "tfdist,torch"], "Received: 'torch'"),
        (["--contestants", "ddp"], "ddp needs PyTorch. There is no PyTorch here"),
        (["--contestants", "apart", "--out", "{out}"], "is there already"),
    ],
)
@pytest.mark.usefixtures("without_torch")
def test_what_is_wrong_is_said_before_anything_runs(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ddp.svg").touch()
    with pytest.raises(SystemExit) as exit_info:
        ddp.main([option.format(out=tmp_path) for option in options])
    assert exit_info.value.code == 2
    assert said in capsys.readouterr().err


def test_a_torch_that_does_not_do_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        ddp.main(["mlp", "--torch-python", str(tmp_path / "python")])
    assert "--torch-python: " in capsys.readouterr().err


@pytest.mark.parametrize("with_torch", [False, True])
@pytest.mark.parametrize("onednn", [False, True])
def test_by_default_all_take_part_and_the_ceiling_with_onednn_where_tensorflow_leaves_it_off(
    with_torch: bool, onednn: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    torch = TorchPython("python", {"torch": "2.13.0"}) if with_torch else None
    ran: list[tuple[list[str], int, str]] = []

    def run_rounds(contestants: dict, rounds: int, seconds: float, report: object) -> dict:
        ran.append((list(contestants), rounds, f"{seconds:g}"))
        raise KeyboardInterrupt

    monkeypatch.setattr(common_options, "find_torch", lambda path, changed: torch)
    monkeypatch.setattr(ddp, "starts_with_onednn", lambda: onednn)
    monkeypatch.setattr(ddp, "run_rounds", run_rounds)
    with pytest.raises(KeyboardInterrupt):
        ddp.main(["--out", str(tmp_path), "--cores", str(min(os.sched_getaffinity(0)))])
    expected = [
        "tfdist",
        *(["ddp"] if with_torch else []),
        "tensorflow",
        "apart",
        "in-step",
        *([] if onednn else ["apart+onednn"]),
    ]
    assert ran == [(expected, 5, "900")]
