""""""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.doctor.machine.probe_answers import TOLD, facts
from tfdist.cluster import Cluster, Membership
from tfdist.doctor.check_result import Check, CheckStatus
from tfdist.doctor.machine import machine_checks
from tfdist.doctor.machine.machine_checks import (
    check_cluster,
    check_gpus,
    check_machine,
    check_run,
    check_tensorflow,
    check_variables,
)
from tfdist.doctor.machine.machine_facts import Gpu, MachineFacts, NvidiaDriver
from tfdist.doctor.machine.tensorflow_facts import BrokenTensorFlow, TensorFlowFacts, understand
from tfdist.errors import ClusterError
from tfdist.launch.worker import worker_variables

GIB = 1 << 30
MACHINE = MachineFacts("here", 8, 8, None, 16 * GIB, 12 * GIB, 8 * GIB, 4096, None)
GPU = Gpu(0, "NVIDIA A100", "550.54", 80 * GIB, 79 * GIB, "8.0")
TWO = NvidiaDriver((GPU, replace(GPU, index=1)))


@pytest.mark.parametrize(
    ("name", "changed", "nvidia", "workers", "status", "text"),
    [
        ("cores", {}, NvidiaDriver(), 8, CheckStatus.OK, "8 of 8"),
        ("cores", {}, NvidiaDriver(), 9, CheckStatus.WARN, "8 of 8 for 9 worker(s)"),
        ("cores", {"quota": 1.5}, NvidiaDriver(), 2, CheckStatus.WARN, "limited to the time of 1.5"),
        ("cores", {"quota": 64.0}, NvidiaDriver(), 2, CheckStatus.OK, "8 of 8"),
        ("memory", {}, NvidiaDriver(), 12, CheckStatus.OK, "12.0 GiB free of 16.0 GiB"),
        ("memory", {}, NvidiaDriver(), 13, CheckStatus.WARN, "13 worker(s) take about 13.0 GiB"),
        ("memory", {"free": None, "memory": None}, NvidiaDriver(), 99, CheckStatus.OK, "unknown free of unknown"),
        ("shared memory", {"shared": 64 << 20}, NvidiaDriver(), 1, CheckStatus.OK, "/dev/shm of 64.0 MiB"),
        ("shared memory", {"shared": 64 << 20}, NvidiaDriver((GPU,)), 1, CheckStatus.OK, "/dev/shm of 64.0 MiB"),
        ("shared memory", {"shared": 64 << 20}, TWO, 1, CheckStatus.WARN, "joins the 2 GPUs: too small"),
        ("shared memory", {"shared": None}, TWO, 1, CheckStatus.WARN, "no /dev/shm"),
        ("open files", {}, NvidiaDriver(), 1, CheckStatus.OK, "at most 4096 a process"),
        ("open files", {"open_files": None}, NvidiaDriver(), 1, CheckStatus.OK, "no limit"),
        ("open files", {"open_files": 256, "most_open_files": 512}, NvidiaDriver(), 1, CheckStatus.WARN, "at most 256"),
    ],
)
def test_the_machine_is_judged(
    name: str,
    changed: dict[str, int | float | None],
    nvidia: NvidiaDriver,
    workers: int,
    status: CheckStatus,
    text: str,
) -> None:
    checks = check_machine(replace(MACHINE, **changed), nvidia, workers, {})  # type: ignore[arg-type]
    (check,) = [check for check in checks if check.name == name]
    assert check.status is status
    assert text in check.found


@pytest.mark.parametrize(
    ("nvidia", "statuses", "text"),
    [
        (NvidiaDriver(), [CheckStatus.OK], "no NVIDIA GPU here"),
        (NvidiaDriver(problem="nvidia-smi failed with 9: no driver"), [CheckStatus.WARN], "would compute on the CPU"),
        (TWO, [CheckStatus.OK] * 3, "compute capability 8.0, 79.0 GiB free of 80.0 GiB"),
        (
            NvidiaDriver((replace(GPU, free=GIB),)),
            [CheckStatus.OK, CheckStatus.WARN],
            "1.00 GiB free of 80.0 GiB: another program uses it",
        ),
        (NvidiaDriver((replace(GPU, memory=None, free=None),)), [CheckStatus.OK] * 2, "unknown free of unknown"),
    ],
)
def test_gpus_are_judged(nvidia: NvidiaDriver, statuses: list[CheckStatus], text: str) -> None:
    checks: list[Check] = check_gpus(nvidia)
    assert [check.status for check in checks] == statuses
    assert text in checks[-1].found


def test_malloc_settings_and_their_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    own = machine_checks.check_malloc({"LD_PRELOAD": "libjemalloc.so", "TF_CONFIG": "{}"})
    assert own.found.endswith("tfdist adds nothing: LD_PRELOAD=libjemalloc.so")
    monkeypatch.setattr(worker_variables, "allocator_settings", lambda environ: {"MALLOC_ARENA_MAX": "1"})
    assert machine_checks.check_malloc({}).found.endswith("compute on the CPU, MALLOC_ARENA_MAX=1")
    monkeypatch.setattr(worker_variables, "allocator_settings", lambda environ: {})
    assert "where there is a GPU" in machine_checks.check_malloc({}).found


@pytest.mark.parametrize(
    ("found", "status", "text"),
    [
        (Membership(None, (0,)), CheckStatus.OK, "the default: one worker"),
        (
            Membership(Cluster.parse("a:20000,b:20000"), (1,), source="TF_CONFIG"),
            CheckStatus.OK,
            "2 workers, from TF_CONFIG; worker(s) 1 here: a:20000,b:20000",
        ),
        (ClusterError("TF_CONFIG is not valid JSON."), CheckStatus.FAIL, "TF_CONFIG is not valid JSON."),
    ],
)
def test_who_takes_part(found: Membership | ClusterError, status: CheckStatus, text: str) -> None:
    check = check_cluster(found)
    assert (check.status, check.code) == (status, 2)
    assert text in check.found


@pytest.mark.parametrize(
    ("environ", "statuses", "text"),
    [
        ({}, [CheckStatus.OK], "no variable"),
        ({"NCCL_DEBUG": "INFO"}, [CheckStatus.OK], "NCCL_DEBUG=INFO"),
        ({"TF_CONFIG": "x" * 1000}, [CheckStatus.OK], "x..."),
        ({"TF_USE_LEGACY_KERAS": "1"}, [CheckStatus.OK, CheckStatus.FAIL], "Keras 2"),
        ({"TF_USE_LEGACY_KERAS": "0"}, [CheckStatus.OK], "TF_USE_LEGACY_KERAS=0"),
        ({"TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": "True"}, [CheckStatus.OK, CheckStatus.FAIL], "weights of the first step"),
        ({"KERAS_BACKEND": "tensorflow"}, [CheckStatus.OK], "KERAS_BACKEND=tensorflow"),
        ({"KERAS_BACKEND": "jax"}, [CheckStatus.OK, CheckStatus.FAIL], "KERAS_BACKEND is jax"),
        ({"KERAS_BACKEND": ""}, [CheckStatus.OK], "KERAS_BACKEND="),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, [CheckStatus.OK, CheckStatus.WARN], "hides every GPU"),
        ({"CUDA_VISIBLE_DEVICES": "1,0"}, [CheckStatus.OK], "CUDA_VISIBLE_DEVICES=1,0"),
    ],
)
def test_variables(environ: dict[str, str], statuses: list[CheckStatus], text: str) -> None:
    checks = check_variables(environ)
    assert [check.status for check in checks] == statuses
    assert text in checks[-1].found


A100 = {"name": "NVIDIA A100", "capability": "8.0"}
K80 = {"name": "Tesla K80", "capability": "3.7"}
DRIVER = Gpu(0, "NVIDIA A100", "550", None, None, "8.0")
TWO_WORKERS = Membership(Cluster.parse("a:20000,b:20000"), (1,))


@pytest.mark.parametrize(
    ("changed", "nvidia", "expected"),
    [
        ({}, NvidiaDriver(), [("TensorFlow", CheckStatus.OK, "built for CUDA 12.5.1")]),
        ({"cuda": ""}, NvidiaDriver(), [("TensorFlow", CheckStatus.OK, "built without CUDA")]),
        ({"backend": "jax"}, NvidiaDriver(), [("TensorFlow", CheckStatus.FAIL, "Keras 3.15.1 on jax")]),
        (
            {},
            NvidiaDriver((DRIVER,)),
            [("TensorFlow", CheckStatus.OK, ""), ("GPUs in TensorFlow", CheckStatus.WARN, "0 of the 1")],
        ),
        (
            {"gpus": [A100], "nccl": "2.27.7 (nvidia-nccl-cu12)"},
            NvidiaDriver((DRIVER, DRIVER)),
            [
                ("TensorFlow", CheckStatus.OK, ""),
                ("GPUs in TensorFlow", CheckStatus.WARN, "1 of the 2"),
                ("NCCL", CheckStatus.OK, "2.27.7"),
            ],
        ),
        (
            {"gpus": [A100, A100], "nccl": "2.27.7"},
            NvidiaDriver((DRIVER, DRIVER)),
            [
                ("TensorFlow", CheckStatus.OK, ""),
                ("GPUs in TensorFlow", CheckStatus.OK, "2 x NVIDIA A100 (compute capability 8.0)"),
                ("NCCL", CheckStatus.OK, "2.27.7"),
            ],
        ),
        (
            {"gpus": [A100, K80]},
            NvidiaDriver((DRIVER, DRIVER)),
            [
                ("TensorFlow", CheckStatus.OK, ""),
                (
                    "GPUs in TensorFlow",
                    CheckStatus.WARN,
                    "of different kinds: 1 x NVIDIA A100 (compute capability 8.0), 1 x Tesla K80",
                ),
                ("NCCL", CheckStatus.OK, "built in"),
                ("compute capability", CheckStatus.FAIL, "Tesla K80 (3.7): this TensorFlow has code from 6 on"),
            ],
        ),
    ],
)
def test_facts_are_judged(
    changed: dict[str, Any], nvidia: NvidiaDriver, expected: list[tuple[str, CheckStatus, str]]
) -> None:
    checks: list[Check] = check_tensorflow(facts(**changed), nvidia)
    assert [(check.name, check.status) for check in checks] == [(name, status) for name, status, _ in expected]
    assert all(text in check.found for check, (_, _, text) in zip(checks, expected, strict=True))


def test_a_slow_tensorflow_is_not_called_broken() -> None:
    (slow,) = check_tensorflow(
        BrokenTensorFlow("did not get through 'import Keras' within 1 s", hung=True), NvidiaDriver()
    )
    assert slow.status is CheckStatus.FAIL
    assert "--timeout" in slow.advice and "Repair" not in slow.advice


def test_a_broken_tensorflow_is_one_failure() -> None:
    broken = BrokenTensorFlow("was ended by SIGILL at 'import TensorFlow'", ("a line", "the last"))
    (check,) = check_tensorflow(broken, NvidiaDriver())
    assert (check.status, check.code) == (CheckStatus.FAIL, 2)
    assert check.found.endswith("was ended by SIGILL at 'import TensorFlow'\na line\nthe last")
    assert check_run(broken, None) == []


@pytest.mark.parametrize(
    ("changed", "membership", "status", "text"),
    [
        ({}, Membership(None, (0,)), CheckStatus.OK, "no strategy (so it is); 1 replica on CPU:0"),
        (
            {
                "devices": ["/device:GPU:0", "/device:GPU:1"],
                "choice": {"kind": "multi_worker", "communication": "nccl", "reason": "the replicas are on GPUs"},
            },
            TWO_WORKERS,
            CheckStatus.OK,
            "MultiWorkerMirroredStrategy over NCCL (the replicas are on GPUs); 4 replicas if all 2 workers are as "
            "worker 1, which has GPU:0, GPU:1",
        ),
        ({}, None, CheckStatus.WARN, "cannot be foretold"),
    ],
)
def test_what_a_run_would_use(
    changed: dict[str, Any], membership: Membership | None, status: CheckStatus, text: str
) -> None:
    (check,) = check_run(facts(**changed), membership)
    assert check.status is status
    assert text in check.found


def test_a_worker_that_would_be_refused_says_why() -> None:
    found = understand(json.dumps({"refused": {**TOLD, "text": "3 workers need a GPU each."}}), "", 0, None)
    assert isinstance(found, TensorFlowFacts)
    (check,) = check_run(found, TWO_WORKERS)
    assert (check.status, check.found) == (CheckStatus.FAIL, "would not start: 3 workers need a GPU each.")
