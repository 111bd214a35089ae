from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tfdist.cluster import Cluster, Membership
from tfdist.doctor.check_result import Check, CheckStatus
from tfdist.doctor.machine.nvidia_smi import Gpu, NvidiaDriver
from tfdist.doctor.machine.tensorflow_checks import check_run, check_tensorflow
from tfdist.doctor.machine.tensorflow_facts import BrokenTensorFlow, ProbeRequest, TensorFlowFacts, probe, understand

TOLD: dict[str, Any] = {
    "tensorflow": "2.21.0",
    "keras": "3.15.1",
    "numpy": "2.4.6",
    "backend": "tensorflow",
    "gpus": [],
    "cuda": "12.5.1",
    "cudnn": "9",
    "capabilities": ["sm_60", "compute_90"],
    "nccl": None,
}
ONE = {"devices": ["/device:CPU:0"], "choice": {"kind": "one", "communication": "none", "reason": "so it is"}}
A100 = {"name": "NVIDIA A100", "capability": "8.0"}
K80 = {"name": "Tesla K80", "capability": "3.7"}
DRIVER = Gpu(0, "NVIDIA A100", "550", None, None, "8.0")
REQUEST = ProbeRequest(1, 0, 1, 20)
TWO_WORKERS = Membership(Cluster.parse("a:20000,b:20000"), (1,))


def printing(*messages: dict[str, Any], then: str = "") -> tuple[str, ...]:
    """A probe that prints some messages and then does something."""
    lines = "".join(json.dumps(message) + "\n" for message in messages)
    return sys.executable, "-c", f"import os, signal, sys\nprint({lines!r}, end='', flush=True)\n{then}"


def facts(**changed: Any) -> TensorFlowFacts:
    found = understand(json.dumps({"facts": {**TOLD, **ONE, **changed}}), "", 0, None)
    assert isinstance(found, TensorFlowFacts)
    return found


def test_what_it_tells_is_understood() -> None:
    found = probe(REQUEST, printing({"stage": "import TensorFlow"}, {"facts": {**TOLD, **ONE}}))
    assert isinstance(found, TensorFlowFacts)
    assert (found.tensorflow, found.devices, found.refused) == ("2.21.0", ("/device:CPU:0",), "")


def test_it_is_told_what_a_worker_here_would_be() -> None:
    told = {**TOLD, **ONE, "cuda": "?"}
    command = printing(
        then=f"import json\ntold = {told!r}\ntold['cuda'] = sys.argv[1]\nprint(json.dumps({{'facts': told}}))"
    )
    found = probe(ProbeRequest(4, 1, 2, 20), command)
    assert isinstance(found, TensorFlowFacts)
    assert json.loads(found.cuda) == {"workers": 4, "rank": 1, "size": 2, "seconds": 20}


@pytest.mark.parametrize(
    ("then", "what"),
    [
        ("raise ImportError('libcudart.so.12: no such file')", "failed at 'import TensorFlow': ImportError: libcudart"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was ended by SIGSEGV at 'import TensorFlow'"),
        ("sys.exit(3)", "failed at 'import TensorFlow': exit code 3"),
    ],
)
def test_a_tensorflow_that_does_not_import_or_crashes_is_a_finding(then: str, what: str) -> None:
    found = probe(REQUEST, printing({"stage": "import TensorFlow"}, then=then))
    assert isinstance(found, BrokenTensorFlow)
    assert found.what.startswith(what)


def test_a_tensorflow_that_hangs_is_left_after_its_bound_and_says_where() -> None:
    then = "import faulthandler\nfaulthandler.dump_traceback_later(0.1, exit=True)\nsignal.pause()"
    found = probe(ProbeRequest(1, 0, 1, 20), printing({"stage": "look for GPUs"}, then=then))
    assert isinstance(found, BrokenTensorFlow)
    assert found.what == "did not get through 'look for GPUs' within 20 s"
    assert found.hung and "line 5 in <module>" in found.output[2]


def test_one_that_does_not_even_end_itself_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfdist.doctor.machine.tensorflow_facts._KILL_AFTER_SECONDS", 0.0)
    found = probe(ProbeRequest(1, 0, 1, 0.5), printing(then="signal.pause()"))
    assert found == BrokenTensorFlow("did not get through 'start' within 0.5 s", hung=True)


def test_a_line_that_was_cut_off_is_left_out() -> None:
    assert understand('{"stage": "import Keras"}\n{"fac', "", -9, None) == BrokenTensorFlow(
        "was ended by SIGKILL at 'import Keras'"
    )


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
def test_what_tensorflow_finds_is_judged(
    changed: dict[str, Any], nvidia: NvidiaDriver, expected: list[tuple[str, CheckStatus, str]]
) -> None:
    checks: list[Check] = check_tensorflow(facts(**changed), nvidia)
    assert [(check.name, check.status) for check in checks] == [(name, status) for name, status, _ in expected]
    assert all(text in check.found for check, (_, _, text) in zip(checks, expected, strict=True))


def test_a_slow_tensorflow_is_told_from_a_broken_one() -> None:
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
