"""Elastic jobs on hosts that are network namespaces: hosts are lost, come late and come back."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.waiting import until
from tests.workers.launcher_processes import Launcher, Launchers
from tfdist.verify.hosts.namespace_hosts import NamespaceHost, NamespacesUnavailableError, namespace_hosts

PORT = 20_000
Hosts = tuple[NamespaceHost, ...]


@pytest.fixture
def three() -> Iterator[Hosts]:
    with contextlib.ExitStack() as stack:
        try:
            hosts = stack.enter_context(namespace_hosts(3))
        except NamespacesUnavailableError as error:
            pytest.skip(str(error))
        yield hosts


class Job:
    """An elastic job of these hosts, with the same run directory name on each and no shared file system."""

    def __init__(self, launchers: Launchers, hosts: Hosts, *args: str, **elastic: Any) -> None:
        self.launchers, self.hosts, self.args = launchers, hosts, args
        self.elastic = {"min_workers": 2, "rejoin_timeout": 3.0, **elastic}
        self.workers = ",".join(f"{host.ipv4}:{PORT}" for host in hosts)

    def start(self, number: int, **options: Any) -> Launcher:
        host = self.hosts[number]
        given = {"workers": self.workers, "args": list(self.args), "elastic": self.elastic, "max_restarts": 3}
        # A worker that is released leaves a message in the launcher's log; what matters here is on its terminal.
        given |= {"run_dir": "run", "start_timeout": 20, "show": "all", **options}
        return self.launchers.start(folder=host.name, prefix=host.prefix, **given)

    def log(self, number: int, index: int, attempt: int) -> Path:
        return self.launchers.folder / self.hosts[number].name / "run" / "logs" / f"worker-{index}.{attempt}.log"


def kill(launcher: Launcher) -> None:
    """As if its machine had lost power, but that its connections break at once."""
    launcher.send(signal.SIGKILL)
    launcher.process.wait(20)


def test_a_job_goes_on_without_a_host_that_is_lost(launchers: Launchers, three: Hosts) -> None:
    mark = launchers.folder / "mark"
    job = Job(launchers, three, f"2@0:touch:{mark}", "*@0:train:0.05", "*@1:assignment")
    running = [job.start(number) for number in range(3)]
    until(mark.exists)
    kill(running[2])
    assert [each.end() for each in running[:2]] == [0, 0], [each.err for each in running[:2]]
    assert f"2 of 3 workers start, without {three[2].ipv4}:{PORT}" in running[0].err
    assert "is gone" in running[0].err
    for number in range(2):
        assert "seed=" in job.log(number, number, 1).read_text()
    assert not (launchers.folder / three[0].name / "run" / "failure.json").exists()


@pytest.mark.slow
def test_a_host_that_fills_no_group_of_workers_waits(launchers: Launchers, three: Hosts) -> None:
    job = Job(launchers, three, "*:assignment", grow=True)
    running = [job.start(number, tensor=2) for number in range(3)]
    assert [each.end() for each in running] == [0, 0, 0], [each.err for each in running]
    assert f"2 of 3 workers start, without {three[2].ipv4}:{PORT}" in running[0].err
    assert "takes part from the next step on, once there are enough for groups of --tensor 2" in running[2].err
    assert "can take part: the workers stop" not in running[0].err


@pytest.mark.bound(150)
@pytest.mark.slow
def test_a_job_goes_on_without_a_host_that_is_cut_off(launchers: Launchers, three: Hosts) -> None:
    """No connection breaks: half a minute passes until the silence is noticed."""
    mark = launchers.folder / "mark"
    job = Job(launchers, three, f"1@0:touch:{mark}", "*@0:train:0.05", "*@1:assignment")
    running = [job.start(number) for number in range(3)]
    until(mark.exists)
    three[1].set_link("down")
    assert [running[0].end(120), running[2].end(120)] == [0, 0], [running[0].err, running[2].err]
    assert running[1].end(120) == 4, running[1].err
    assert f"2 of 3 workers start, without {three[1].ipv4}:{PORT}" in running[0].err
    assert "seed=" in job.log(2, 1, 1).read_text()


@pytest.mark.slow
def test_a_job_goes_on_without_a_launcher_that_is_stopped(launchers: Launchers, three: Hosts) -> None:
    mark = launchers.folder / "mark"
    job = Job(launchers, three, f"2@0:touch:{mark}", "*@0:train:0.05", "*@1:assignment")
    running = [job.start(number, silence=12) for number in range(3)]
    until(mark.exists)
    running[2].send(signal.SIGSTOP)
    assert [each.end() for each in running[:2]] == [0, 0], [each.err for each in running[:2]]
    assert "has not answered for 12 s" in running[0].err
    assert f"2 of 3 workers start, without {three[2].ipv4}:{PORT}" in running[0].err
    running[2].send(signal.SIGCONT)
    assert running[2].end() == 4, running[2].err


@pytest.mark.slow
def test_a_host_that_is_lost_while_the_launchers_meet_is_not_waited_for(launchers: Launchers, three: Hosts) -> None:
    job = Job(launchers, three, "*:assignment")
    running = [job.start(number) for number in (0, 2)]
    until(lambda: f"2 of 3 workers are here; waiting for {three[1].ipv4}:{PORT}" in read_err(running[0]))
    running[1].send(signal.SIGSTOP)
    running.insert(1, job.start(1))
    until(lambda: f"waiting for {three[2].ipv4}:{PORT}, connection refused" in read_err(running[0]))
    kill(running[2])
    lost = time.monotonic()
    assert [each.end() for each in running[:2]] == [0, 0], [each.err for each in running[:2]]
    assert time.monotonic() - lost < 15
    assert f"worker 2 ({three[2].name}, {three[2].ipv4}:{PORT}) failed: the launcher of worker(s) 2 is gone" in (
        running[0].err
    )
    assert f"2 of 3 workers start, without {three[2].ipv4}:{PORT}" in running[0].err


def test_the_workers_are_numbered_anew_when_one_in_the_middle_is_lost(launchers: Launchers, three: Hosts) -> None:
    mark = launchers.folder / "mark"
    job = Job(launchers, three, f"1@0:touch:{mark}", "*@0:train:0.05", "*@1:environ:TF_CONFIG")
    running = [job.start(number) for number in range(3)]
    until(mark.exists)
    kill(running[1])
    assert [running[0].end(), running[2].end()] == [0, 0], [running[0].err, running[2].err]
    said = job.log(2, 1, 1).read_text()
    told = json.loads(said.partition("TF_CONFIG=")[2].splitlines()[0])
    # The chief's launcher keeps its port; its worker has the next.
    assert told["cluster"]["worker"] == [f"{three[0].ipv4}:{PORT + 1}", f"{three[2].ipv4}:{PORT}"]
    assert told["task"]["index"] == 1


def test_too_few_hosts_end_the_job_with_3(launchers: Launchers, three: Hosts) -> None:
    mark = launchers.folder / "mark"
    job = Job(launchers, three, f"2@0:touch:{mark}", "*@0:train:0.05", "*@1:train:0.05")
    running = [job.start(number) for number in range(3)]
    until(mark.exists)
    kill(running[2])
    kill(running[1])
    assert running[0].end() == 3, running[0].err
    assert "1 of 3 workers are left" in running[0].err
    assert f"{three[1].ipv4}:{PORT}, {three[2].ipv4}:{PORT}" in running[0].err


def test_without_the_chief_all_others_end_with_4(launchers: Launchers, three: Hosts) -> None:
    mark = launchers.folder / "mark"
    job = Job(launchers, three, f"2@0:touch:{mark}", "*@0:train:0.05", "*@1:train:0.05")
    running = [job.start(number) for number in range(3)]
    until(mark.exists)
    kill(running[0])
    assert [each.end() for each in running[1:]] == [4, 4], [each.err for each in running[1:]]
    for each in running[1:]:
        assert "error: Without the chief no worker goes on" in each.err


def test_without_the_chief_who_waits_ends_with_4_too(launchers: Launchers, three: Hosts) -> None:
    job = Job(launchers, three, "*:step:3", "*:train:0.05", rejoin_timeout=1.0)
    running = [job.start(number) for number in range(2)]
    until(lambda: f"without {three[2].ipv4}" in read_err(running[0]), timeout=30)
    late = job.start(2)
    until(lambda: "takes part when the workers start the next time" in read_err(late), timeout=30)
    kill(running[0])
    assert [each.end() for each in (running[1], late)] == [4, 4], [running[1].err, late.err]
    assert "error: Without the chief no worker goes on" in late.err


def test_a_host_that_comes_late_enters_at_the_next_restart(launchers: Launchers, three: Hosts) -> None:
    mark, again = launchers.folder / "mark", launchers.folder / "again"
    job = Job(
        launchers, three, f"1@0:touch:{mark}", f"*@0:await:{again}", "1@0:raise:ValueError boom", "*@0:train:0.05",
        "*@1:assignment", rejoin_timeout=1.0,
    )  # fmt: skip
    running = [job.start(number) for number in range(2)]
    until(mark.exists)
    late = job.start(2)
    # It says that it waits once the chief's launcher has let it in.
    until(lambda: "takes part when the workers start the next time" in read_err(late), timeout=30)
    again.touch()
    assert [each.end() for each in (*running, late)] == [0, 0, 0], [each.err for each in (*running, late)]
    assert "3 of 3 workers start" in running[0].err
    assert "seed=" in job.log(2, 2, 1).read_text()


def test_a_host_that_comes_back_is_taken_in_at_a_step(launchers: Launchers, three: Hosts) -> None:
    """From three to two to three, with --grow."""
    marks = [launchers.folder / f"mark-{attempt}" for attempt in range(3)]
    touches = [f"1@{attempt}:touch:{mark}" for attempt, mark in enumerate(marks)]
    job = Job(
        launchers, three, touches[0], "*@0:train:0.05", "*@1:step:7", touches[1], "*@1:train:0.05", "*@2:assignment",
        grow=True,
    )  # fmt: skip
    running = [job.start(number) for number in range(3)]
    until(marks[0].exists)
    kill(running[2])
    until(marks[1].exists, timeout=40)
    back = job.start(2, resume="auto")
    assert [each.end() for each in (*running[:2], back)] == [0, 0, 0], [each.err for each in (*running, back)]
    assert f"{three[2].name} can take part: the workers stop at a step" in running[0].err
    assert "stopped after" in job.log(1, 1, 1).read_text()
    assert "seed=" in job.log(2, 2, 2).read_text()


def test_a_job_begins_with_enough_hosts_when_the_others_do_not_come(launchers: Launchers, three: Hosts) -> None:
    job = Job(launchers, three, "*:assignment", rejoin_timeout=1.0)
    running = [job.start(number) for number in (0, 2)]
    assert [each.end() for each in running] == [0, 0], [each.err for each in running]
    assert f"2 of 3 workers start, without {three[1].ipv4}:{PORT}" in running[0].err


def test_a_job_of_which_too_few_come_does_not_begin(launchers: Launchers, three: Hosts) -> None:
    job = Job(launchers, three, "*:assignment")
    alone = job.start(0, start_timeout=2)
    assert alone.end() == 3
    assert "1 of 3 workers are left, after waiting for 2 s" in alone.err
    without_chief = job.start(1, start_timeout=2)
    assert without_chief.end() == 3
    assert f"worker 0 ({three[0].ipv4}:{PORT}) refuses the connection" in without_chief.err


@pytest.mark.parametrize(("number", "sent", "code"), [(0, signal.SIGTERM, 143), (1, signal.SIGINT, 130)])
def test_a_signal_to_the_chief_or_an_interrupt_stops_all_at_one_step(
    launchers: Launchers, three: Hosts, number: int, sent: signal.Signals, code: int
) -> None:
    mark = launchers.folder / "mark"
    job = Job(launchers, three, "*:step:3", f"2:touch:{mark}", "*:train:0.05")
    running = [job.start(each) for each in range(3)]
    until(mark.exists)
    running[number].send(sent)
    assert [each.end() for each in running] == [code] * 3, [each.err for each in running]
    for index in range(3):
        assert f"{sent.name} to the launcher on {three[number].name}" in running[index].err
        assert "stopped after" in job.log(index, index, 0).read_text()


def test_a_host_that_is_told_to_end_leaves_at_a_step_and_the_others_go_on(launchers: Launchers, three: Hosts) -> None:
    """As a host that is preempted or drained."""
    mark = launchers.folder / "mark"
    job = Job(launchers, three, "*@0:step:3", f"2@0:touch:{mark}", "*@0:train:0.05", "*@1:assignment")
    running = [job.start(each) for each in range(3)]
    until(mark.exists)
    running[2].send(signal.SIGTERM)
    assert [each.end() for each in running] == [0, 0, 143], [each.err for each in running]
    assert f"{three[2].name} leaves the job (SIGTERM to the launcher on {three[2].name})" in running[0].err
    assert all("stopped after" in job.log(index, index, 0).read_text() for index in range(3))
    assert "seed=" in job.log(1, 1, 1).read_text()


def test_a_host_that_was_given_something_else_is_told_and_the_job_goes_on(launchers: Launchers, three: Hosts) -> None:
    mark, end = launchers.folder / "mark", launchers.folder / "end"
    job = Job(launchers, three, f"1:touch:{mark}", f"*:await:{end}", rejoin_timeout=1.0)
    running = [job.start(number) for number in range(2)]
    until(mark.exists)
    other = job.start(2, kernels="tensorflow", batch_norm="replica")
    assert other.end() == 3
    assert "was given other options than the chief's host" in other.err
    fixed = launchers.start(
        folder=three[2].name, prefix=three[2].prefix, workers=job.workers, args=[], start_timeout=5
    )  # without --min-workers
    assert fixed.end() == 3
    end.touch()
    assert [each.end() for each in running] == [0, 0], [each.err for each in running]
    assert f"{three[2].name} cannot take part: " in running[0].err


def test_a_worker_that_fails_again_and_again_ends_the_job(launchers: Launchers, three: Hosts) -> None:
    job = Job(launchers, three, "1:raise:ValueError boom", "*:hang")
    running = [job.start(number) for number in range(3)]
    assert [each.end() for each in running] == [4] * 3, [each.err for each in running]
    assert "the same ValueError came before the first step twice" in running[0].err
    assert "boom" in running[2].err


def read_err(launcher: Launcher) -> str:
    """What it has written so far on stderr, without waiting."""
    assert launcher.process.stderr is not None
    descriptor = launcher.process.stderr.fileno()
    os.set_blocking(descriptor, False)
    with contextlib.suppress(BlockingIOError):
        launcher.err += os.read(descriptor, 65536).decode()
    os.set_blocking(descriptor, True)
    return launcher.err
