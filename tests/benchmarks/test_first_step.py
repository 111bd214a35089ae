from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import first_step
from benchmarks.comparison import common_options
from benchmarks.comparison.contestants import Task
from benchmarks.comparison.rounds import Record
from benchmarks.comparison.torch_python import TorchPython
from tfdist.rundir import RunDir
from tfdist.rundir.ledger_lines import LedgerInterval, append_entry

MOMENTS = {"process": 11.0, "met": 15.0, "built": 15.5, "stepped": 18.0, "again": 18.25}


def test_the_phases_add_up() -> None:
    found = first_step.phases({"started": 10.0, "moments": MOMENTS, "forming": 1.5})
    assert list(found) == list(first_step.PHASES)
    assert list(found.values()) == [1.0, 2.5, 1.5, 0.5, 2.5, 8.0, 0.25]
    noted = first_step.phases({"started": 11.002, "moments": {**MOMENTS, "imported": 12.0}})
    assert (noted["launcher"], noted["imports"], noted["meeting"]) == (0.0, 1.0, 3.0)


def test_what_came_is_shown_with_what_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:  # noqa: ANN001
    said = [{"started": 10.0, "moments": MOMENTS, "forming": 1.5}]

    def run_rounds(contestants: dict, rounds: int, seconds: float, report: object) -> dict[str, Record]:
        if "python" in contestants:
            return {name: Record([[{"started": 3.0, "done": 3.25}]]) for name in contestants}
        records = {name: Record([said, said]) for name in contestants}
        records["tfdist, XLA"] = Record(failure="It failed with exit code 1.")
        for name, record in records.items():
            report(0, name, record)
        return records

    monkeypatch.setattr(first_step, "run_rounds", run_rounds)
    monkeypatch.setattr(common_options, "find_torch", lambda path, changed: TorchPython("python", {"torch": "2.13.0"}))
    assert first_step.main(["cnn", "--workers", "2", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "2 workers, round 1 of 3: tfdist 8.00 s" in printed
    assert "tfdist, XLA failed. It failed with exit code 1." in printed
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines() if line.startswith("|")]
    assert rows[0] == ["imported", "seconds"] and rows[2] == ["python", "0.25 (0.25 to 0.25)"] and rows[6][0] == "torch"
    assert rows[7] == ["phase", "tfdist", "tfdist, XLA", "tensorflow", "torchrun"]
    assert ["imports", "2.50 (2.50 to 2.50)", "failed", "2.50 (2.50 to 2.50)", "2.50 (2.50 to 2.50)"] in rows
    figures = json.loads((tmp_path / "first-step.json").read_text())
    starts = figures["starts"]
    assert figures["imports"]["tensorflow"] == [0.25]
    assert starts[0]["phases"][1]["all"] == 8.0 and starts[1]["failure"]


def test_the_launchers_start_the_same_model(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "run")
    run.ledger_file.parent.mkdir()
    append_entry(run.ledger_file, LedgerInterval(0, 1.0, 4.0, {"forming": 0.75, "start-up": 2.0}, 0, 0))
    task = Task("cnn", 2, 1, 256, (0, 1), 60.0, TorchPython("torch-python", {}), ("--quiet",))
    found = {}
    for name, processes in first_step.contestants(task).items():
        with processes(tmp_path) as commands:
            found[name] = commands
    assert {name: len(commands) for name, commands in found.items()} == {
        **{"tfdist": 1, "tfdist, XLA": 1, "tensorflow": 2, "torchrun": 1}
    }
    xla, torchrun = " ".join(found["tfdist, XLA"][0].arguments), " ".join(found["torchrun"][0].arguments)
    assert xla.endswith("--quiet -m benchmarks.workers.first_fit cnn 0,1 --xla")
    assert torchrun.startswith("torch-python -m torch.distributed.run --standalone --nproc-per-node 2 ")
    assert found["tfdist"][0].afterwards() == {"forming": 0.75}


def test_the_first_steps_of_fit_are_noted_one_after_another(
    command_line: Callable[..., None], printed: Callable[[], dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks import model_sizes
    from benchmarks.workers import first_fit

    monkeypatch.setattr(model_sizes, "BATCH", 8)
    command_line("mlp", ",".join(map(str, os.sched_getaffinity(0))))
    first_fit.main()
    moments = printed()["moments"]
    assert list(moments) == ["process", "met", "built", "stepped", "again"]
    assert sorted(moments.values()) == list(moments.values())


@pytest.mark.slow
def test_starting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(common_options, "find_torch", lambda path, changed: None)
    assert first_step.main(["mlp", "--workers", "2", "--rounds", "1", "--out", str(tmp_path)]) == 0
    for start in json.loads((tmp_path / "first-step.json").read_text())["starts"]:
        (found,) = start["phases"]
        assert found["imports"] > 0 and found["first step"] > 0
        assert found["all"] == pytest.approx(sum(list(found.values())[:5]), abs=0.05)
