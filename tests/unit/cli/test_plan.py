from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import tfdist.errors
from tfdist.cli import plan as plan_module
from tfdist.cli import train as train_module
from tfdist.cli.main import main
from tfdist.doctor.machine import machine_facts
from tfdist.doctor.machine.machine_facts import Gpu, NvidiaDriver
from tfdist.launch import job as launch_job
from tfdist.launch.gpus.usable_gpus import GpuCount
from tfdist.plan.memory.step_sizes import StepSizes
from tfdist.plan.plan_inputs import ClusterSize

CONFIG = """\
seed: 7
model: {build: absent.model}
compile: {optimizer: adam, loss: mse}
data: {batch_size: 32, train: {format: npz, path: digits.npz, split: train, shuffle: true}}
"""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TF_CONFIG", "SLURM_JOB_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(plan_module, "_count_gpus", lambda: GpuCount(0))
    monkeypatch.delenv("TFDIST_EMULATE_GPUS", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits.yaml").write_text(CONFIG)
    np.savez(tmp_path / "digits.npz", x_train=np.zeros((100, 4)), y_train=np.zeros(100))


def run(arguments: str) -> Result:
    return CliRunner().invoke(main, arguments.split())


@pytest.mark.parametrize(
    ("options", "expected"),
    [("", (3, 3, 1)), ("--nproc 1", (1, 3, 1)), ("--replicas 2", (1, 2, 1)), ("--set devices.logical=2", (1, 6, 1))],
)
def test_workers_where_there_are_several_gpus(
    options: str, expected: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_module, "_count_gpus", lambda: GpuCount(3))
    found = json.loads(run(f"plan digits.yaml --json {options}").stdout)
    assert (found["workers"], found["replicas"], found["hosts"]) == expected


def test_the_table() -> None:
    result = run("plan digits.yaml --nproc 2")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("digits: the plan of its data\n  replicas       2 on 2 workers, 1 each\n")
    assert "  last batch     4 samples, 2 on each replica\n" in result.stdout


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", (1, 1, 1)),
        ("--replicas 4", (1, 4, 1)),
        ("--nproc 2 --replicas 4", (2, 4, 1)),
        ("--workers here.example:20000,there.example:20000", (2, 2, 2)),  # neither is this machine
        ("--set devices.logical=3", (1, 3, 1)),
    ],
)
def test_who_takes_part(options: str, expected: tuple[int, int, int]) -> None:
    found = json.loads(run(f"plan digits.yaml --json {options}").stdout)
    assert (found["workers"], found["replicas"], found["hosts"]) == expected


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ("--replicas 3 --nproc 2", 2, "error: 3 replica(s) cannot be dealt to 2 workers"),
        ("--workers a:1,b:1 --nproc 2", 2, "error: --workers gives the whole cluster"),
        ("--workers a", 2, "error: "),
        ("--nproc 2 --set devices.logical=2", 2, "error: devices.logical splits the CPU for one worker alone"),
        ("--set data.batch_size=0", 2, "data.batch_size: expected an integer of 1 or more"),
        ("--set data.train.path=absent.npz", 5, "absent.npz: No such file or directory"),
        ("--set data.train.split=test", 5, "has no array x_test"),
    ],
)
def test_impossible_plans_are_refused(options: str, code: int, message: str) -> None:
    result = run(f"plan digits.yaml {options}")
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_it_loads_no_tensorflow() -> None:
    """Though it looks up what is in the files."""
    script = (
        "import sys; from tfdist.cli.plan import plan; plan(['digits.yaml'], standalone_mode=False);"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    where = {**os.environ, "PYTHONPATH": str(Path(tfdist.errors.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=150, env=where)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (train_module, launch_job):
        monkeypatch.setattr(module, "run_job", lambda spec: 7, raising=False)


@pytest.mark.usefixtures("job")
def test_a_verbose_run_shows_it_first() -> None:
    result = run("train digits.yaml --nproc 2 --verbose")
    assert result.exit_code == 7
    assert "digits: the plan of its data\n  replicas       2 on 2 workers, 1 each\n" in result.stderr
    assert "plan" not in run("train digits.yaml --nproc 2").stderr


@pytest.mark.usefixtures("job")
def test_a_plan_that_cannot_be_made_does_not_end_a_run() -> None:
    """The workers say the same, and what they say is in the report and in the run directory."""
    result = run("train digits.yaml --verbose --set data.train.path=absent.npz")
    assert result.exit_code == 7
    assert "digits: no plan of its data: Cannot read" in result.stderr


def test_memory_is_planned_by_the_sizes_that_another_process_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"shape": (100, 10), "itemsize": 4}
    weight = {"path": "kernel", "value": value, "gradient": 4000, "slots": [value, value]}
    weight |= {"by_rows": False, "recomputed_in": None}
    weight |= {"slices": (1, 2), "layout": "by columns", "computed": "gathered"}
    sizes = StepSizes.from_json(
        {
            "weights": [weight],
            "frozen": 0,
            "cut": "elements",
            "why_not_cut": "",
            "optimizer": "Adam",
            "activations": 10 << 20,
            "update": 0,
            "why_no_activations": "",
            "uncounted": [],
            "process": 100 << 20,
        }
    )
    asked = []

    def ask(config: Any, share: int, seconds: float) -> Any:
        asked.append((config.name, share, seconds))
        return json.loads(json.dumps(sizes.to_json()))

    monkeypatch.setattr("tfdist.launch.config_process.ask_step_sizes", ask)
    found = json.loads(run("plan digits.yaml --nproc 2 --memory --device-memory 200 --timeout 9 --json").stdout)
    assert asked == [("digits", 16, 9.0)]
    assert found["memory"]["smallest_mode"] == "none"
    assert found["memory"]["modes"]["zero2"]["optimizer"] == 4000
    shown = run("plan digits.yaml --nproc 2 --memory --device-memory 110")
    assert "the device has 110 MiB: no mode fits." in shown.stdout
    assert "memory" not in json.loads(run("plan digits.yaml --json").stdout)
    cut = run("plan digits.yaml --nproc 4 --tensor 2 --memory --device-memory 200")
    assert "axis 1 in 2: by columns" in cut.stdout and "it fits without --tensor" in cut.stdout
    beside = run("plan digits.yaml --nproc 4 --tensor 2 --set shard=zero2 --memory --device-memory 200")
    assert "over 2 workers, in each of 2 groups, with --shard zero2" in beside.stdout
    of_positions = run("plan digits.yaml --nproc 2 --context 2 --memory --device-memory 200")
    assert "what --context 2 saves of them is not counted" in of_positions.stdout
    found = json.loads(run("plan digits.yaml --nproc 2 --tensor 2 --memory --json").stdout)
    assert found["memory"]["modes"]["2"]["optimizer"] == found["memory"]["layouts"]["state"]["optimizer"] == 4000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--nproc 3 --tensor 2", "Received: 3 workers. Start as many: --nproc 4"),
        ("--tensor 2", "Received: 1 worker."),
        ("--nproc 3 --context 2", "--context 2 makes groups of 2 workers, which share each sequence"),
        ("--nproc 2 --replicas 4 --tensor 2", "--tensor 2 with 2 devices in each worker"),
    ],
)
def test_layouts_that_no_workers_can_have(options: str, message: str) -> None:
    refused = run(f"plan digits.yaml {options}")
    assert refused.exit_code == 2 and message in " ".join(refused.stderr.split())


@pytest.mark.parametrize(
    ("workers", "gpus", "memory", "device"),
    [
        (1, 2, 80, "a GPU of this machine"),
        (2, 2, 80, "a GPU of this machine"),
        (2, 1, 40, "each of 2 workers that share a GPU of this machine"),
        (3, 2, 40, "each of 2 workers that share a GPU of this machine"),
    ],
)
def test_the_memory_of_a_gpu_is_shared_by_the_workers_on_it(
    workers: int, gpus: int, memory: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tuple(Gpu(number, "Tester 9000", "570.1", 80, 79, "9.0") for number in range(gpus))
    monkeypatch.setattr(machine_facts, "ask", lambda: NvidiaDriver(found))
    assert plan_module._device_memory(ClusterSize(workers, workers), None) == (memory, device)


def test_device_memory_without_memory_is_refused() -> None:
    refused = run("plan digits.yaml --device-memory 200")
    assert refused.exit_code == 2 and "without --memory" in refused.output


@pytest.mark.parametrize("option", ["--workers a:1,b:1", "--replicas 4", "--memory --device-memory 200"])
def test_a_script_is_planned_on_this_machine(option: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    refused = run(f"plan {option} train.py")
    assert refused.exit_code == 2
    assert "plans a config from sizes alone, and a script is tried on this machine" in refused.stderr


def test_options_of_trainings_are_entries_of_a_config() -> None:
    found = json.loads(run("plan digits.yaml --logical-devices 2 --shard none --json").stdout)
    assert found["replicas"] == 2
