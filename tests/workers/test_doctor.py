"""`tfdist doctor` as processes on loopback, with the real TensorFlow."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.waiting import PATIENCE, until
from tests.workers.launcher_processes import REPOSITORY, left_behind, marked
from tfdist.net.port_reservation import PortReservation


class Doctors:
    """Starts doctors; afterwards nothing of them is left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self._started = ExitStack()

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        outside = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
        process = subprocess.Popen(
            [sys.executable, "-m", "tfdist", "doctor", *arguments],
            cwd=self.folder,
            env={**outside, "PYTHONPATH": str(REPOSITORY), "TFDIST_TEST_MARK": self.mark, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.enter_context(process)
        self._started.callback(process.kill)
        return process

    def close(self) -> None:
        self._started.close()
        left = left_behind(self.mark)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left


@pytest.fixture
def doctors(tmp_path: Path) -> Iterator[Doctors]:
    started = Doctors(tmp_path)
    try:
        yield started
    finally:
        started.close()


def told(process: subprocess.Popen[str], timeout: float = 80) -> dict[str, Any]:
    out, err = process.communicate(timeout=timeout)
    assert out, err
    return json.loads(out)


def found(report: dict[str, Any], name: str) -> str:
    (check,) = [check for check in report["checks"] if check["name"] == name]
    return check["found"]


@pytest.mark.bound(120)
def test_two_doctors_agree(doctors: Doctors, two_ports: tuple[int, int]) -> None:
    workers = ",".join(f"127.0.0.1:{port}" for port in two_ports)
    both = [doctors.start("--json", "--workers", workers, "--index", str(index)) for index in (0, 1)]
    reports = [told(process) for process in both]
    assert [process.returncode for process in both] == [0, 0], reports
    assert reports[0]["pairs"] == reports[1]["pairs"]
    assert [(pair["sources"], pair["target"], pair["status"]) for pair in reports[0]["pairs"]] == [
        ([0], 1, "ok"),
        ([1], 0, "ok"),
    ]
    for report in reports:
        assert "MultiWorkerMirroredStrategy" in found(report, "a run here")
        assert "2 replicas" in found(report, "a run here")


@pytest.mark.bound(120)
def test_a_tensorflow_that_does_not_import_is_a_finding(doctors: Doctors) -> None:
    (doctors.folder / "tensorflow.py").write_text("raise ImportError('this is none')\n")
    process = doctors.start("--json")
    report = told(process)
    assert process.returncode == 2
    assert "failed at 'import TensorFlow': ImportError: this is none" in found(report, "TensorFlow")
    assert not [check for check in report["checks"] if check["name"] == "a run here"]


@pytest.mark.bound(120)
def test_a_tensorflow_that_hangs_is_a_finding(doctors: Doctors) -> None:
    (doctors.folder / "tensorflow.py").write_text("import signal\nsignal.pause()\n")
    process = doctors.start("--json", "--timeout", "8")
    report = told(process)
    assert process.returncode == 2
    # What is left of them after the driver was asked.
    assert re.search(r"did not get through 'import TensorFlow' within [78](\.\d)? s", found(report, "TensorFlow"))
    assert 'tensorflow.py", line 2 in <module>' in found(report, "TensorFlow")


@pytest.mark.bound(120)
def test_a_job_that_holds_the_port_is_named_by_its_process(doctors: Doctors, two_ports: tuple[int, int]) -> None:
    workers = ",".join(f"127.0.0.1:{port}" for port in two_ports)
    with PortReservation() as job:
        job.take(two_ports[0])
        process = doctors.start("--json", "--workers", workers, "--index", "0", "--timeout", "12")
        report = told(process)
    assert process.returncode == 2
    assert f"another tfdist job: pid {os.getpid()} (" in found(report, f"port {two_ports[0]}")


@pytest.mark.bound(120)
def test_a_killed_doctor_leaves_no_process_behind(doctors: Doctors) -> None:
    (doctors.folder / "tensorflow.py").write_text(
        "import pathlib, signal\npathlib.Path('begun').touch()\nsignal.pause()\n"
    )
    process = doctors.start()
    until((doctors.folder / "begun").exists, 60)
    assert len(marked(doctors.mark)) == 2
    process.kill()
    process.communicate(timeout=30 * PATIENCE)
    assert left_behind(doctors.mark) == []


@pytest.mark.bound(120)
def test_an_interrupted_doctor_leaves_nothing_behind(doctors: Doctors) -> None:
    (doctors.folder / "tensorflow.py").write_text(
        "import pathlib, signal\npathlib.Path('begun').touch()\nsignal.pause()\n"
    )
    process = doctors.start()
    until((doctors.folder / "begun").exists, 60)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30 * PATIENCE)
    assert process.returncode == 130
