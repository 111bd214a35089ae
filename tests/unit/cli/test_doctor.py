from __future__ import annotations

import functools
import json
import socket
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tests.helpers.ports import free_ports
from tfdist.cli.doctor import doctor
from tfdist.cli.main import main
from tfdist.doctor import examination
from tfdist.doctor.machine.kernel_speeds import UnknownSpeeds
from tfdist.doctor.machine.machine_facts import NvidiaDriver
from tfdist.doctor.machine.tensorflow_facts import BrokenTensorFlow, ProbeRequest, TensorFlowFacts
from tfdist.net.port_reservation import PortReservation

FACTS = TensorFlowFacts(
    tensorflow="2.21.0",
    keras="3.15.1",
    numpy="2.4.6",
    backend="tensorflow",
    gpus=(),
    cuda="12.5.1",
    cudnn="9",
    capabilities=("sm_60",),
    nccl=None,
    devices=("/device:CPU:0",),
    choice={"kind": "one", "communication": "none", "reason": "one worker with one device"},
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ProbeRequest]:
    """What TensorFlow would have been asked; the machine has no GPU, and nothing in its environment decides."""
    received: list[ProbeRequest] = []

    def probe(request: ProbeRequest) -> TensorFlowFacts:
        received.append(request)
        return FACTS

    monkeypatch.setattr(examination, "probe", probe)
    monkeypatch.setattr(examination, "measure_kernels", lambda seconds: UnknownSpeeds("a test has no time"))
    # Of the seconds that TensorFlow may take none has passed, however slow this machine is.
    monkeypatch.setattr(examination, "check_here", functools.partial(examination.check_here, clock=lambda: 0.0))
    monkeypatch.setattr(examination.machine_facts, "ask", lambda seconds: NvidiaDriver())
    for name in ("TF_CONFIG", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    return received


def run(arguments: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *arguments.split()])


def checks(result: Result) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in json.loads(result.stdout)["checks"]}


def test_the_flags_are_a_contract() -> None:
    options = [param for param in doctor.params if isinstance(param, click.Option)]
    assert {name for option in options for name in option.opts} == {"--workers", "--index", "--json", "--timeout"}
    assert {option.name: option.default for option in options}["timeout"] == 60


def test_this_machine_alone(asked: list[ProbeRequest]) -> None:
    result = run("")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"tfdist doctor on {socket.gethostname()}\n")
    assert "a run here" in result.stdout and "no strategy (one worker with one device)" in result.stdout
    assert asked == [ProbeRequest(1, 0, 1, 60)]


def test_a_machine_with_several_gpus_has_a_worker_for_each(
    asked: list[ProbeRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `tfdist train` starts them."""
    monkeypatch.setenv("TFDIST_EMULATE_GPUS", "count=3")
    run("")
    assert [(request.workers, request.rank, request.size) for request in asked] == [(3, 0, 3)]


def test_json(asked: list[ProbeRequest]) -> None:
    result = run("--json --timeout 7")
    told = json.loads(result.stdout)
    assert (told["exit_code"], told["pairs"], told["workers"]) == (0, [], [])
    expected = {"versions", "TensorFlow", "cores", "memory", "open files", "malloc", "kernels", "cluster"}
    assert expected <= checks(result).keys()
    assert asked[0].seconds == 7


def test_a_tensorflow_that_hangs_is_a_finding(asked: list[ProbeRequest], monkeypatch: pytest.MonkeyPatch) -> None:
    broken = BrokenTensorFlow("did not get through 'import TensorFlow' within 60 s")
    monkeypatch.setattr(examination, "probe", lambda request: broken)
    result = run("")
    assert result.exit_code == 2
    assert "FAIL  TensorFlow" in result.stdout
    assert "Traceback" not in result.output


def test_tf_config_says_who_takes_part(asked: list[ProbeRequest], monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"cluster": {"worker": ["127.0.0.1:20000", "127.0.0.1:20001"]}, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(value))
    found = checks(run("--json"))
    assert found["cluster"]["found"].startswith("2 workers, from TF_CONFIG; worker(s) 1 here")
    assert asked == [ProbeRequest(2, 1, 2, 60)]


def test_a_tf_config_that_is_wrong_is_a_finding(asked: list[ProbeRequest], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", "{")
    result = run("--json")
    found = checks(result)
    assert result.exit_code == 2
    assert (found["cluster"]["status"], found["a run here"]["status"]) == ("fail", "warn")
    assert "is not valid JSON" in found["cluster"]["found"]


def test_a_list_of_this_machines_workers(asked: list[ProbeRequest]) -> None:
    first, second = free_ports(2)
    result = run(f"--json --workers 127.0.0.1:{first},127.0.0.1:{second}")
    told = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [pair["status"] for pair in told["pairs"]] == ["ok", "ok"]
    assert checks(result)[f"port {first}"]["status"] == "ok"
    # Half of the time stays for the connections.
    assert asked == [ProbeRequest(2, 0, 2, 30)]


def test_a_port_in_use_is_2_and_an_absent_host_is_3(asked: list[ProbeRequest]) -> None:
    first, second = free_ports(2)
    workers = f"--workers 127.0.0.1:{first},127.0.0.1:{second} --index 0 --timeout 1"
    absent = run(workers)
    assert absent.exit_code == 3
    assert f"127.0.0.1:{second}  FAIL" in absent.stdout
    with PortReservation() as job:
        job.take(first)
        taken = run(workers)
    assert taken.exit_code == 2
    assert f"FAIL  port {first}" in taken.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--index 0", "--index picks an entry of --workers"),
        ("--workers host", "error: A worker needs a host and a port"),
        ("--workers 127.0.0.1:20000,127.0.0.1:20001 --index 2", "error: The cluster has 2 worker(s)"),
        ("--timeout 0", "expected a number of seconds above 0"),
        ("--workers", "--workers"),
    ],
)
def test_mistakes_exit_with_2(asked: list[ProbeRequest], arguments: str, message: str) -> None:
    result = run(arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not asked
