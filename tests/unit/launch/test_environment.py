from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from tfdist.errors import UsageError
from tfdist.launch import environment
from tfdist.launch.environment import VARIABLE, Assignment, read_token
from tfdist.launch.worker.core_binding import CoreBinding
from tfdist.launch.worker.kernel_choice import Kernels
from tfdist.net.shared_token import Token

ALONE = Assignment(run_dir="/r", seed=2**40, index=0, num_workers=1, target_kind="config", target="c.yaml")
SECOND = Assignment(
    run_dir="/r",
    seed=7,
    index=1,
    num_workers=2,
    target_kind="script",
    target="train.py",
    args=("--epochs", "3", ""),
    local_rank=1,
    local_size=2,
    devices=(0, 2),
    logical_devices=2,
    memory_limit=100,
    communication="ring",
    step_timeout=1.5,
    verbose=True,
    address="b:2",
    cluster="a:1,b:2",
    config_fd=4,
    channel_fd=5,
)


@pytest.mark.parametrize("assignment", [ALONE, SECOND, dataclasses.replace(SECOND, binding=CoreBinding((0, 2), 2))])
def test_an_assignment_goes_through_the_environment(assignment: Assignment) -> None:
    assert Assignment.from_environ(assignment.to_environ({})) == assignment


def test_a_worker_of_several_gets_its_tf_config() -> None:
    environ = SECOND.to_environ({"TF_CONFIG": "stale", "PATH": "/bin"})
    assert json.loads(environ["TF_CONFIG"])["task"] == {"type": "worker", "index": 1}
    assert environ["TF_GRPC_REUSE_PORT"] == "true"
    assert environ["PATH"] == "/bin"


@pytest.mark.parametrize(
    ("share_gpu", "base", "expected"),
    [(True, {}, "1"), (False, {}, None), (True, {"NCCL_MULTI_RANK_GPU_ENABLE": "0"}, "0")],
)
def test_nccl_is_told_that_workers_share_a_gpu(share_gpu: bool, base: dict[str, str], expected: str | None) -> None:
    environ = dataclasses.replace(SECOND, share_gpu=share_gpu).to_environ(base)
    assert environ.get("NCCL_MULTI_RANK_GPU_ENABLE") == expected


@pytest.mark.parametrize(
    ("debugged", "base", "breakpoints"),
    [(None, {}, "tfdist.training.refused_breakpoint.refuse"), (0, {}, "0"), (1, {}, None),
     (None, {"PYTHONBREAKPOINT": "mine.trace"}, "mine.trace")],
)  # fmt: skip
def test_what_breakpoints_of_a_worker_do(debugged: int | None, base: dict[str, str], breakpoints: str | None) -> None:
    environ = dataclasses.replace(SECOND, debug_worker=debugged).to_environ(base)
    assert environ.get("PYTHONBREAKPOINT") == breakpoints
    assert "PYTHONBREAKPOINT" not in ALONE.to_environ({})


def test_a_breakpoint_without_a_terminal_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONBREAKPOINT", SECOND.to_environ({})["PYTHONBREAKPOINT"])
    with pytest.raises(UsageError, match=r"breakpoint\(\) in .*test_environment.py, line \d+: .* --debug-worker 0"):
        breakpoint()  # noqa: T100


def test_more_workers_than_cores_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.os, "sched_getaffinity", lambda pid: {0, 3})
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    assert [bool(environment.crowding(workers, hidden)) for workers in (1, 2, 3)] == [False, False, True]
    assert environment.crowding(4, hidden).startswith("4 workers share 2 cores: ")


def test_workers_do_not_get_the_launchers_secret() -> None:
    base = {"TFDIST_TOKEN": "not-to-be-seen"}
    token = read_token(base)
    assert token == Token("not-to-be-seen")
    for assignment in (ALONE, SECOND):
        assert "not-to-be-seen" not in str(assignment.to_environ(base))
    assert read_token({}) is None


def test_an_empty_secret_is_refused() -> None:
    with pytest.raises(UsageError, match="TFDIST_TOKEN is set and empty"):
        read_token({"TFDIST_TOKEN": ""})


def test_a_single_worker_gets_no_tf_config() -> None:
    environ = ALONE.to_environ({"TF_CONFIG": "stale"})
    assert "TF_CONFIG" not in environ
    assert "TF_GRPC_REUSE_PORT" not in environ
    assert "TF_CPP_MIN_LOG_LEVEL" not in environ  # the log has what TensorFlow says; the terminal is filtered
    assert 0 <= int(environ["PYTHONHASHSEED"]) < 2**32


def test_variables_that_the_user_set_stand_and_the_base_is_not_changed() -> None:
    base = {"PYTHONHASHSEED": "0", "TF_CPP_MIN_LOG_LEVEL": "0"}
    environ = ALONE.to_environ(base)
    assert (environ["PYTHONHASHSEED"], environ["TF_CPP_MIN_LOG_LEVEL"]) == ("0", "0")
    assert base == {"PYTHONHASHSEED": "0", "TF_CPP_MIN_LOG_LEVEL": "0"}


@pytest.mark.parametrize(
    ("kernels", "before", "after"),
    [("auto", None, None), ("auto", "0", "0"), ("onednn", None, "1"), ("onednn", "0", "1"), ("tensorflow", "1", "0")],
)
def test_the_kernels_that_the_launcher_chose(kernels: Kernels, before: str | None, after: str | None) -> None:
    base = {} if before is None else {"TF_ENABLE_ONEDNN_OPTS": before}
    assert dataclasses.replace(ALONE, kernels=kernels).to_environ(base).get("TF_ENABLE_ONEDNN_OPTS") == after


def test_outside_a_launcher_there_is_no_assignment() -> None:
    assert Assignment.from_environ({}) is None


def told(**changed: Any) -> str:
    return json.dumps({**json.loads(SECOND.to_environ({})["TFDIST_WORKER"]), **changed})


BROKEN = ["{", "[]", "{}", '{"index": 0}', json.dumps({"unknown": 1}), "[" * 100_000]
OF_ANOTHER_TYPE = {"cluster": ["a:1"], "address": 5, "args": [None], "devices": ["0"], "seed": 1.5, "config_fd": "3"}
BINDINGS = [{}, 3, {"cores": [], "workers": 1}, {"cores": [0], "workers": "1"}, {"cores": ["0"], "workers": 1}]
CHANGED = [told(**{name: value}) for name, value in OF_ANOTHER_TYPE.items()]
CHANGED += [told(binding=binding) for binding in BINDINGS]


@pytest.mark.parametrize("text", [*BROKEN, *CHANGED], ids=len)
def test_a_broken_variable_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=VARIABLE):
        Assignment.from_environ({VARIABLE: text})


@pytest.mark.parametrize(
    "changed",
    [
        {"index": 2},
        {"index": -1},
        {"local_rank": 2},
        {"local_size": 3},
        {"seed": -1},
        {"target_kind": "notebook"},
        {"communication": "mpi"},
        {"cluster": None},
        {"num_workers": 1, "index": 0, "local_size": 1, "local_rank": 0},
    ],
)
def test_it_checks_itself(changed: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        dataclasses.replace(SECOND, **changed)
