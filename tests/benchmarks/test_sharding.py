from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import sharding
from benchmarks.comparison import common_options
from benchmarks.comparison.rounds import Record
from benchmarks.comparison.torch_python import TorchPython
from benchmarks.workers import sharded_names

MIB = 1 << 20
SAID = {"parameters": 10, "stored": 20 * MIB, "state": 40 * MIB, "building": 30 * MIB, "peak": 90 * MIB, "seconds": 0.5}
LOSSES = {"losses": [4.0, 2.0]}


def test_what_came_is_shown_with_what_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:  # noqa: ANN001
    def run_rounds(contestants: dict, rounds: int, seconds: float, report: object) -> dict[str, Record]:
        records = {name: Record([[{**SAID, **LOSSES} if name != "FSDP" else SAID]]) for name in contestants}
        records["zero2"] = Record([[{**SAID, "losses": [4.0, 2.002]}]])
        records["zero1"] = Record(failure="It failed with exit code 1.")
        for name, record in records.items():
            report(0, name, record)
        return records

    monkeypatch.setattr(sharding, "run_rounds", run_rounds)
    monkeypatch.setattr(common_options, "find_torch", lambda path, changed: TorchPython("python", {"torch": "2.13.0"}))
    assert sharding.main(sharding.SHARDING, ["100M", "--workers", "2", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "100M parameters, 2 workers, round 1: zero3 90 MiB at most, 0.50 s a step" in printed
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines() if line.startswith("|")]
    assert [row[0] for row in rows[2:]] == ["one-device", "none", "zero1", "zero2", "zero3", "FSDP"]
    assert rows[0][1:] == [*sharding.COLUMNS, "steps a second", "zero3 / it", "loss is off by"]
    assert rows[6][1:] == ["20", "40", "30", "90", "2.00 (2.00 to 2.00)", "1.00 (1.00 to 1.00)", "0e+00"]
    assert rows[5][-1] == "1e-03" and rows[7][-1] == "" and rows[4][1:] == [*["failed"] * 5, "", ""]
    figures = json.loads((tmp_path / "sharding.json").read_text())
    assert figures["runs"][5]["said"] == [SAID] and figures["runs"][2]["failure"]


def test_sizes_are_what_they_are_called() -> None:
    for name, (width, layers) in sharded_names.STACKS.items():
        assert width * width * layers == pytest.approx(int(name.removesuffix("M")) * 1e6, rel=0.06)


def test_a_size_that_there_is_not(capsys) -> None:  # noqa: ANN001
    with pytest.raises(SystemExit):
        sharding.main(sharding.TENSOR, ["20M"])
    assert "expected some of blocks, small-blocks, gpt2. Received: 20M" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        sharding.main(sharding.SHARDING, ["--contestants", "zero2,zero4"])
    assert "expected some of one-device,none,zero1,zero2,zero3,FSDP. Received: zero4" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.bound(300)
@pytest.mark.parametrize(
    ("comparison", "model", "way", "parameters", "part"),
    [
        (sharding.SHARDING, "10M", "zero2", 1024 * 1024 * 10, 1),
        (sharding.SHARDING, "10M", "zero3", 1024 * 1024 * 10, 1 / 2),
        (sharding.TENSOR, "small-blocks", "tensor", 2 * (12 * 128 * 128), 1 / 2),
        (sharding.CONTEXT, "small-blocks", "context", 2 * (12 * 128 * 128), 1),
    ],
)
def test_a_worker_holds_its_part(
    comparison: sharding.Comparison, model: str, way: str, parameters: int, part: float,
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.setattr(common_options, "find_torch", lambda path, changed: None)
    options = [model, "--contestants", f"one-device,{way}", "--steps", "2", "--out", str(tmp_path)]
    assert sharding.main(comparison, options) == 0
    one, sharing = (run["said"][0] for run in json.loads((tmp_path / f"{comparison.name}.json").read_text())["runs"])
    # Biases, normalizations and the head are small, and some whole on each.
    assert parameters * 4 * part <= sharing["stored"] <= parameters * 4 * part + 20_000
    assert sharing["losses"] == pytest.approx(one["losses"], rel=1e-4)
