"""`python -m benchmarks gpu`: what it starts on which machine, what it makes of it, and one run at its smallest."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.comparison import common_options
from benchmarks.comparison.rounds import Record
from benchmarks.comparison.torch_python import TorchPython
from benchmarks.gpu import command
from benchmarks.gpu import trainers as trainers_module
from benchmarks.gpu.gpu_models import MODELS, TrainingSpec, gpu_model
from benchmarks.gpu.speed_report import goals, judgements, picture, report
from benchmarks.gpu.trainers import PARTS, Machine, torch_environment, trainers

SPEC = TrainingSpec("transformer")
TORCH = TorchPython("torch-python", {"torch": "2.13.0"})
ALL = tuple(PARTS)


def ran(*rates: float, first_step: float = 12.0, **facts: Any) -> Record:
    """A trainer that was started at 10.0, once a pair."""
    base = {"started": 10.0, "first_step": first_step, "host_memory": 900.0, "jit_compile": True}
    return Record([[{**base, "rates": [0.1, rate, 1e6], **facts}] for rate in rates])


def arguments(machine: Machine, name: str, folder: Path, spec: TrainingSpec = SPEC) -> list[str]:
    with trainers(machine, spec, ALL)[name](folder) as commands:
        return [" ".join(command.arguments) for command in commands]


@pytest.mark.parametrize(
    ("gpus", "one", "replicas", "workers"),
    [
        (0, "", "--nproc 1 --logical-devices 2", "--nproc 2"),
        (1, "--devices 0", "--nproc 1 --devices 0 --logical-devices 2", "--nproc 2 --devices 0 --share-gpu"),
        (4, "--devices 0", "--nproc 1 --devices 0,1", "--nproc 2 --devices 0,1"),
    ],
)
def test_a_gpu_a_worker_where_there_are_several(
    gpus: int, one: str, replicas: str, workers: str, tmp_path: Path
) -> None:
    machine = Machine(gpus, train_options=("--jit", "off"))
    for name, options in (("tfdist", one), ("replicas", replicas), ("workers", workers)):
        [line] = arguments(machine, name, tmp_path)
        assert f"--run-dir {tmp_path}/run {options}{' ' if options else ''}--jit off -m benchmarks.workers." in line


def test_peers_take_part_where_they_are(tmp_path: Path) -> None:
    assert not {"ddp", "ddp-compiled", "jax"} & trainers(Machine(1), SPEC, ALL).keys()
    with_all = Machine(1, TORCH, jax=True)
    assert list(trainers(with_all, SPEC, ("peers",))) == list(PARTS["peers"])
    assert "ddp" not in trainers(with_all, TrainingSpec("resnet50"), ALL)
    first, second = arguments(with_all, "ddp-compiled", tmp_path)
    assert first.startswith("torch-python -m benchmarks.workers.gpu_torch ")
    told = TrainingSpec.parse(second.split(maxsplit=3)[3])
    assert (told.workers, told.index, told.compiles, told.folder) == (2, 1, True, str(tmp_path))


def test_pytorch_has_its_own_libraries_and_may_share_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    folders = "/site/nvidia/cublas/lib:/usr/local/nvidia/lib64"
    apart = torch_environment({"LD_LIBRARY_PATH": folders, "PYTHONPATH": "/site"})
    assert apart["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib64" and "/site" not in str(apart["PYTHONPATH"])
    assert "NCCL_MULTI_RANK_GPU_ENABLE" not in apart
    assert torch_environment({}, shares=True)["NCCL_MULTI_RANK_GPU_ENABLE"] == "1"
    monkeypatch.setattr(trainers_module, "_nccl", lambda: "/site/nvidia/nccl/lib/libnccl.so.2")
    newer = torch_environment({}, shares=True, nccl=(2, 30, 1))
    older = torch_environment({}, shares=True, nccl=(2, 27, 5))
    assert "LD_PRELOAD" not in newer and older["LD_PRELOAD"] == "/site/nvidia/nccl/lib/libnccl.so.2"


@pytest.mark.parametrize("model", MODELS)
def test_smaller_models_are_whole_ones(model: str) -> None:
    for scale in (1, 3, 8, 1000):
        made = gpu_model(model, scale)
        assert made.batch >= 2 and made.steps >= 2
        if model == "transformer":
            assert made.size.width % made.size.heads == 0
    assert gpu_model("transformer").size.width == 512 and gpu_model("resnet50").precision == "mixed_bfloat16"


def test_goals_are_judged_pair_by_pair_on_gpus_alone() -> None:
    cells = {
        "mlp": {"plain": ran(100.0, 200.0), "tfdist": ran(98.0, 202.0), "workers": ran(10.0, 10.0)},
        "transformer": {"tfdist": ran(40.0), "workers": ran(20.0), "replicas": Record(failure="It failed.")},
    }
    wanted = goals(("one", "replicas"), shares=True)
    assert [(row[0], row[1], row[4]) for row in judgements(cells, wanted, on_gpu=True)] == [
        ("mlp", "tfdist / plain", "met"),
        ("transformer", "workers / tfdist", "**not met**"),
    ]
    assert {row[4] for row in judgements(cells, wanted, on_gpu=False)} == {"not judged: no GPU"}
    page = report(["# Training on a GPU"], cells, wanted, on_gpu=True)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("|")]
    assert ["plain", "150 (100 to 200)", "yes", "2.00 (2.00 to 2.00)", "900 (900 to 900)"] in rows
    assert ["replicas", "failed", "", "", ""] in rows and "transformer, replicas: It failed." in page
    assert picture(cells).startswith("<svg")


def test_on_a_shared_gpu_jax_is_compared_with_one_device() -> None:
    assert [goal.first for goal in goals(("peers",), shares=True)] == ["workers", "workers", "tfdist"]
    assert [goal.first for goal in goals(("peers",), shares=False)] == ["workers", "workers", "workers"]


@pytest.mark.parametrize(("option", "text"), [("--parts", "one,two"), ("--models", "mlp,cnn"), ("--pairs", "0")])
def test_what_is_wrong_is_said_before_anything_runs(option: str, text: str, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        command.main([option, text])
    assert f"Received: {text!r}" in capsys.readouterr().err


@pytest.mark.bound(240)
@pytest.mark.slow
def test_training_beside_plain_keras(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--parts", "one", "--models", "mlp", "--pairs", "1", "--windows", "1", "--scale", "64"]
    assert command.main([*options, "--limit", "100", "--out", str(tmp_path)]) == 0
    runs = json.loads((tmp_path / "gpu.json").read_text())["runs"]
    assert [(run["model"], run["trainer"]) for run in runs] == [("mlp", "plain"), ("mlp", "tfdist")]
    for run in runs:
        assert run["rates"][0] > 0 and run["first_step_seconds"][0] > 0 and run["host_memory"][0] > 100
    assert runs[0]["said"][0][0]["parameters"] == runs[1]["said"][0][0]["parameters"]
    printed = capsys.readouterr().out
    assert "mlp, round 1 of 1: tfdist " in printed and (tmp_path / "gpu.md").read_text() in printed


@pytest.mark.slow
@pytest.mark.bound(600)
def test_all_of_it_as_on_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(common_options, "find_torch", lambda path, changed: None)
    monkeypatch.setitem(os.environ, "TFDIST_EMULATE_GPUS", "nccl,xla,count=1")
    options = ["--models", "mlp,transformer", "--pairs", "1", "--windows", "1", "--scale", "64", "--out", str(tmp_path)]
    assert command.main(options) == 0
    runs = json.loads((tmp_path / "gpu.json").read_text())["runs"]
    replicas = {(run["model"], run["trainer"]): run["said"][0][0]["replicas"] for run in runs}
    expected = {"plain": 1, "tfdist": 1, "replicas": 2, "workers": 2}
    assert replicas == {(model, name): count for model in ("mlp", "transformer") for name, count in expected.items()}
