from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import all_reduce
from benchmarks.comparison import common_options
from benchmarks.comparison.rounds import Record
from benchmarks.comparison.torch_python import TorchPython
from benchmarks.workers.all_reduce_spec import AllReduceSpec, timed
from tfdist.launch.worker_options import Communication
from tfdist.runtime.collectives.calls import Call

TORCH = TorchPython("torch-python", {"torch": "2.13.0"})


def test_the_engines_are_those_of_the_command_line_that_a_cpu_has() -> None:
    assert {*all_reduce.engines(), "nccl"} == set(Communication.__args__)


def test_each_engine_sums_the_same(tmp_path: Path) -> None:
    found = all_reduce.contestants(("ring",), 3, (4, 5), 60.0, TORCH, ["--quiet"])
    with found["tfdist, ring"](tmp_path) as (command,):
        text = " ".join(command.arguments)
        assert (
            "--nproc 3 " in text and "--communication ring --quiet -m benchmarks.workers.tensorflow_all_reduce" in text
        )
    with found["gloo"](tmp_path) as commands:
        assert [command.cores for command in commands] == [(4,), (5,), (4,)]
        specs = [AllReduceSpec.parse(each.arguments[-1]) for each in commands]
    assert [spec.index for spec in specs] == [0, 1, 2]
    assert AllReduceSpec.parse(command.arguments[-1]) == specs[0]
    assert set(specs[0].sizes) == {"4000", "2700000", "98000000"}


def test_a_sum_that_is_wrong_is_no_time() -> None:
    def is_all(total: list[float], number: float) -> bool:
        return set(total) == {number}

    def time(total: list[float]) -> float:
        return timed(lambda: [1.0] * 3, lambda ones: total, 2, 3.0, is_all)

    assert time([3.0, 3.0, 3.0]) >= 0
    with pytest.raises(RuntimeError, match="expected sums of 3. Received: 1"):
        time([3.0, 3.0, 1.0])
    with pytest.raises(RuntimeError, match="expected sums of 3. Received: other numbers"):
        time([3.0, 1.0, 3.0])


def test_what_came_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    def run_rounds(contestants: dict, rounds: int, seconds: float, report: object) -> dict[str, Record]:
        times = [{"seconds": dict.fromkeys(map(str, all_reduce.SIZES), second)} for second in (0.001, 0.002)]
        records = {name: Record([times]) for name in contestants}
        records["gloo"] = Record(failure="It failed with exit code 1.")
        report(0, "gloo", records["gloo"])
        return records

    monkeypatch.setattr(all_reduce, "run_rounds", run_rounds)
    monkeypatch.setattr(common_options, "find_torch", lambda path: TORCH)
    options = ["--workers", "2,4", "--communication", "ring", "--out", str(tmp_path)]
    assert all_reduce.main(options) == 1
    printed = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines() if line.startswith("|")]
    assert rows[0] == ["size", "workers", "tfdist, ring", "gloo"]
    assert rows[2] == ["4.00 kB", "2", "2.00 (2.00 to 2.00)", "failed"] and len(rows) == 2 + 2 * len(all_reduce.SIZES)
    assert json.loads((tmp_path / "all-reduce.json").read_text())["sums"][1]["failure"] == "It failed with exit code 1."


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--communication", "nccl"], "expected some of auto, ring"),
        (["--workers", "1,2"], "one worker has nobody to sum with"),
    ],
)
def test_what_is_wrong_is_said(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        all_reduce.main(options)
    assert said in capsys.readouterr().err


def test_workers_sum_and_say_how_long_the_slowest_took(
    tmp_path: Path,
    command_line: Callable[..., None],
    printed: Callable[[], dict],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from benchmarks.workers import tensorflow_all_reduce

    class Slower:
        """Asks the others: one of them took an hour."""

        def run(self, call: Call, medians: dict[str, float]) -> dict[str, float]:
            assert call == Call("all_reduce", "max")
            return {size: max(seconds, 3600.0) for size, seconds in medians.items()}

    monkeypatch.setattr(tensorflow_all_reduce, "communicator_of", lambda strategy: Slower())
    spec = AllReduceSpec(1, {"4000": 2}, tuple(os.sched_getaffinity(0)), 60.0, str(tmp_path))
    command_line(spec.argument())
    tensorflow_all_reduce.main()
    assert printed()["seconds"]["4000"] == 3600.0


@pytest.mark.slow
def test_workers_sum(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(all_reduce, "SIZES", {4_000: 2, 2_000_000: 2})
    monkeypatch.setattr(common_options, "find_torch", lambda path: None)
    assert all_reduce.main(["--rounds", "1", "--out", str(tmp_path)]) == 0
    sums = json.loads((tmp_path / "all-reduce.json").read_text())["sums"]
    assert [each["contestant"] for each in sums] == [f"tfdist, {engine}" for engine in all_reduce.engines()]
