from __future__ import annotations

import concurrent.futures
import contextlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.comparison.contestants import ABOUT, Contestant, Task
from benchmarks.comparison.process_group import Command
from benchmarks.comparison.torch_python import TorchPython
from benchmarks.workers.loop_spec import LoopSpec
from benchmarks.workers.step_meeting import StepMeeting
from tfdist.cluster.tf_config import parse_tf_config

TASK = Task("cnn", 3, 7, 256, (4, 5), 60.0, TorchPython("torch-python", {}), ("--kernels", "onednn"))


def commands(name: str, folder: Path, task: Task = TASK) -> list[Command]:
    with Contestant(name).processes(task, folder) as found:
        return found


@pytest.mark.parametrize("name", ["", "pytorch", "ddp+onednn", "apart+", "apart+mkl", "apart+onednn+eigen"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected tfdist, ddp, tensorflow, apart"):
        Contestant(name)


@pytest.mark.parametrize("name", [name for name in ABOUT if name != "tfdist"])
def test_each_worker_of_a_loop_is_a_process_on_a_core(name: str, tmp_path: Path) -> None:
    found = commands(name, tmp_path)
    assert [command.cores for command in found] == [(4,), (5,), (4,)]
    specs = [LoopSpec.parse(command.arguments[-1]) for command in found]
    alone = name in ("apart", "in-step")
    first = LoopSpec("cnn", 3, 0, 7, 256, 60.0, str(tmp_path), apart=alone, in_step=name == "in-step")
    assert specs == [replace(first, index=index) for index in range(3)]
    assert found[0].arguments[0] == ("torch-python" if name == "ddp" else sys.executable)


def test_workers_of_tfdist_share_a_launcher(tmp_path: Path) -> None:
    (command,) = commands("tfdist", tmp_path)
    text = " ".join(command.arguments)
    assert command.cores == (4, 5)
    assert "tfdist train --nproc 3 " in text and text.endswith("--kernels onednn -m benchmarks.fit cnn 7 --cores 4,5")
    assert commands("tfdist", tmp_path, replace(TASK, workers=1))[0].cores == (4,)


def test_the_kernels_are_chosen(tmp_path: Path) -> None:
    chosen = {name: commands(name, tmp_path)[0].environment for name in ("tfdist+eigen", "apart+onednn", "tensorflow")}
    found = {name: environment.get("TF_ENABLE_ONEDNN_OPTS") for name, environment in chosen.items()}
    assert found == {"tfdist+eigen": "0", "apart+onednn": "1", "tensorflow": None}


def test_a_cluster_of_several_has_ports_of_its_own_and_one_worker_none(tmp_path: Path) -> None:
    found = [command.environment["TF_CONFIG"] for command in commands("tensorflow", tmp_path)]
    assert all(text is not None for text in found)
    clusters = [parse_tf_config(str(text)) for text in found]
    assert [index for _, index in clusters] == [0, 1, 2]
    assert len({address.port for address in clusters[0][0].workers}) == 3
    assert commands("tensorflow", tmp_path, replace(TASK, workers=1))[0].environment["TF_CONFIG"] is None


def test_a_specification_is_read_as_it_is_written() -> None:
    spec = LoopSpec("mlp", 2, 1, 5, 256, 60.0, "/x", apart=True)
    assert LoopSpec.parse(spec.argument()) == spec and spec.share == 128
    assert json.loads(spec.argument())["index"] == 1


def test_workers_meet(tmp_path: Path) -> None:
    specs = [LoopSpec("mlp", 2, index, 5, 256, 0.05, str(tmp_path)) for index in range(2)]
    with pytest.raises(TimeoutError, match=r"workers \[1\] were not ready within 0.05 s"):
        specs[0].meet()
    specs[1].meet()


def test_workers_in_step_wait_for_each_other(tmp_path: Path) -> None:
    """Each says where it is before it waits: nobody is a step ahead of another."""
    specs = [LoopSpec("mlp", 3, index, 5, 256, 30.0, str(tmp_path), in_step=True) for index in range(3)]
    steps, seen = [0, 0, 0], []

    def run(spec: LoopSpec) -> None:
        with contextlib.closing(StepMeeting(spec)) as wait:
            for _ in range(spec.steps):
                steps[spec.index] += 1
                wait()
                seen.append((steps[spec.index], min(steps)))

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(run, specs, timeout=60))
    assert steps == [5, 5, 5] and len(seen) == 15 and all(least >= own for own, least in seen)


def test_a_worker_in_step_does_not_wait_for_ever(tmp_path: Path) -> None:
    for index in range(2):
        with pytest.raises(TimeoutError):
            StepMeeting(LoopSpec("mlp", 2, index, 5, 256, 0.05, str(tmp_path), in_step=True))
