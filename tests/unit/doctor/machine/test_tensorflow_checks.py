from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.doctor.machine.probe_answers import TOLD, facts
from tfdist.cluster import Cluster, Membership
from tfdist.doctor.check_result import Check, CheckStatus
from tfdist.doctor.machine.nvidia_smi import Gpu, NvidiaDriver
from tfdist.doctor.machine.tensorflow_checks import check_run, check_tensorflow
from tfdist.doctor.machine.tensorflow_facts import BrokenTensorFlow, TensorFlowFacts, understand

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
