"""`tfdist launch` over ssh, on hosts that are network namespaces, with stand-in workers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.clusters.ssh.launches import Launch, Launches, MakeHosts
from tests.helpers.processes import command_line
from tests.helpers.waiting import until


def in_training(launches: Launches, *options: object) -> Launch:
    """A launch whose workers train until they are told to stop."""
    marks = [launches.folder / f"trains-{index}" for index in range(len(launches.servers.hosts))]
    touch = [f"{index}:touch:{mark}" for index, mark in enumerate(marks)]
    launch = launches.launch(*options, "train.py", "*:listen", *touch, "*:train:0.05")
    until(lambda: all(map(Path.exists, marks)) or launch.process.poll() is not None)
    assert launch.process.poll() is None, launch.process.communicate()
    return launch


def ssh_of(launches: Launches, host: str) -> int:
    """The ssh client of a running launch to a host."""
    for pid in launches.on_hosts():
        words = command_line(pid)
        if words[:1] == ["ssh"] and host in words:
            return pid
    raise AssertionError(f"no ssh to {host}")


def test_workers_on_all_hosts_are_one_job(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(2)
    launch = launches.launch("--workers-per-host", 2, "--show", "all", "train.py", "*:listen", "*:print:hello")
    assert launch.end() == 0, launch.err
    assert launch.out.count("h1: hello\n") == launch.out.count("h2: hello\n") == 2
    assert "launching 4 worker(s) on 2 host(s): h1, h2" in launch.err
    logs = {log.name for log in (launches.run() / "logs").iterdir()}
    assert logs == {f"worker-{index}.0.log" for index in range(4)}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_launch_stops_all_hosts(ssh_hosts: MakeHosts, number: int) -> None:
    launches = ssh_hosts(2)
    launch = in_training(launches)
    os.killpg(launch.process.pid, number)
    assert launch.end() == 128 + number, launch.err
    assert f"{signal.Signals(number).name} to tfdist launch on" in launch.err
    assert launch.err.count("stopped: ") == 1 and "; all hosts have ended" in launch.err


def test_a_launch_that_is_killed_leaves_nothing(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(2)
    launch = in_training(launches, "--grace", 5)
    launch.process.kill()
    launch.end()
    until(lambda: not launches.on_hosts(), timeout=40, otherwise="hosts went on")


def test_workers_that_do_not_stop_are_killed_within_the_grace(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(2)
    mark = launches.folder / "swallows"
    launch = launches.launch("--grace", 1, "train.py", "*:swallow", f"1:touch:{mark}", "*:hang")
    until(mark.exists)
    launch.process.terminate()
    assert launch.end(40) == 143, launch.err


def test_an_ssh_that_dies_ends_the_run_everywhere(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(2)
    launch = in_training(launches, "--grace", 5)
    os.kill(ssh_of(launches, "h2"), signal.SIGKILL)
    assert launch.end() == 4, launch.err
    assert "error: h2 was lost: its ssh was killed by signal 9. The run was stopped on all hosts." in launch.err
    assert launch.err.count("error: ") == 1 and "stopped: " not in launch.err


@pytest.mark.bound(180)
def test_a_host_that_is_cut_off_ends_the_run_everywhere(ssh_hosts: MakeHosts) -> None:
    """What ran there ends, too: it hears nothing from the launching host any more."""
    launches = ssh_hosts(2)
    launch = in_training(launches, "--grace", 2)
    launches.servers.hosts["h2"].set_link("down")
    assert launch.end(90) == 4, launch.err
    assert launch.err.count("error: ") == 1, launch.err
    assert "h2" in launch.err
    until(lambda: not launches.on_hosts(), timeout=80, otherwise="h2 went on")


@pytest.mark.slow
@pytest.mark.bound(300)
@pytest.mark.parametrize("host", ["h1", "h2"])
def test_a_launcher_that_is_stopped_is_named_and_ends_with_all(ssh_hosts: MakeHosts, host: str) -> None:
    """The chief's, which decides for all, or another one."""
    launches = ssh_hosts(2)
    launch = in_training(launches, "--grace", 2)
    os.kill(launcher_on(launches, host), signal.SIGSTOP)
    assert launch.end(200) == 4, launch.err
    index = int(host == "h2")
    assert f"error: worker {index} ({host}" in launch.err.replace(launches.servers.hosts[host].name, host), launch.err
    assert "has not answered for 120 s: it is stopped" in launch.err


def test_a_worker_that_fails_is_reported_once(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(3)
    launch = launches.launch("train.py", "*:listen", "1:raise:ValueError boom", "*:hang")
    assert launch.end() == 4
    assert launch.err.count("error: worker 1 (") == launch.err.count("Traceback") == 1, launch.err
    assert "ValueError boom" in launch.err


def test_restarts_are_shown_once(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(2)
    launch = launches.launch("--max-restarts", 1, "train.py", "*:listen", "1@0:signal:9", "*@0:hang", "*@1:print:again")
    assert launch.end() == 0, launch.err
    assert launch.err.count("all workers start again in") == 1
    assert "h1: again" in launch.out


def test_the_exit_code_of_scripts_that_agree(ssh_hosts: MakeHosts) -> None:
    launch = ssh_hosts(2).launch("train.py", "*:listen", "*:code:7")
    assert launch.end() == 7, launch.err


@pytest.mark.bound(120)
def test_an_elastic_run_goes_on_without_a_host(ssh_hosts: MakeHosts) -> None:
    """Its chief's launcher decides that, and the launch leaves it to it."""
    launches = ssh_hosts(3)
    # A run of its workers' own would resume: these train anew.
    launch = in_training(launches, "--grace", 1, "--min-workers", 2, "--rejoin-timeout", 2)
    os.kill(ssh_of(launches, "h3"), signal.SIGKILL)
    logs = launches.run() / "logs"
    until(lambda: {"worker-0.1.log", "worker-1.1.log"} <= {log.name for log in logs.iterdir()}, timeout=60)
    launch.process.terminate()
    assert launch.end() == 143, launch.err
    assert "warning: h3 was lost: its ssh was killed by signal 9; the others go on" in launch.err


def launcher_on(launches: Launches, host: str) -> int:
    """The `tfdist train` on a host."""
    for pid in launches.servers.hosts[host].processes():
        if command_line(pid)[2:4] == ["tfdist", "train"]:
            return pid
    raise AssertionError(f"no launcher on {host}")


@pytest.mark.bound(120)
def test_a_host_that_an_elastic_run_has_lost_is_started_again(ssh_hosts: MakeHosts) -> None:
    """By the launch, which alone knows the list and the token; the run takes it in at a step."""
    launches = ssh_hosts(3)
    launch = in_training(launches, "--grace", 2, "--min-workers", 2, "--rejoin-timeout", 1, "--grow")
    os.kill(launcher_on(launches, "h3"), signal.SIGKILL)
    logs = launches.run() / "logs"
    until(lambda: (logs / "worker-2.2.log").exists(), timeout=60, otherwise="h3 did not come back")
    launch.process.terminate()
    assert launch.end() == 143, launch.err
    assert "warning: h3 has ended with exit code 137; the others go on" in launch.err
    assert "h3 is there again: its part of the run starts anew" in launch.err


def losing_its_chief(launches: Launches, starts: int) -> tuple[Launch, list[Path]]:
    """An elastic run that trains in each of its starts but the last, and the files by which these say so."""
    marks = [launches.folder / f"mark-{attempt}" for attempt in range(starts - 1)]
    act = [f"0@{attempt}:touch:{mark}" for attempt, mark in enumerate(marks)]
    act += [f"*@{attempt}:train:0.05" for attempt in range(starts - 1)]
    options = ["--grace", 2, "--min-workers", 2, "--rejoin-timeout", 20, "--connect-timeout", 15]
    launch = launches.launch(*options, "--show", "all", "train.py", *act, f"*@{starts - 1}:print:done")
    until(marks[0].exists)
    return launch, marks


def see_it_done(launches: Launches, launch: Launch, starts: int) -> None:
    assert launch.end(90) == 0, launch.err
    assert launch.err.count("which has the chief, ") == starts - 1, launch.err
    again = "h1 is there again: the run starts anew on all hosts, after step 0 (restart "
    assert launch.err.count(again) == starts - 1, launch.err
    assert "Without the chief" not in launch.err and "the others go on" not in launch.err
    assert all(f"{host}: done\n" in launch.out for host in launches.servers.hosts)


@pytest.mark.bound(120)
def test_an_elastic_run_whose_chiefs_launcher_is_killed_starts_again_everywhere(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(2)
    launch, _ = losing_its_chief(launches, 2)
    os.kill(launcher_on(launches, "h1"), signal.SIGKILL)
    see_it_done(launches, launch, 2)


@pytest.mark.slow
@pytest.mark.bound(180)
def test_an_elastic_run_that_loses_the_chiefs_host_starts_again_when_that_is_back(ssh_hosts: MakeHosts) -> None:
    """No connection breaks: half a minute passes until the silence is noticed."""
    launches = ssh_hosts(3)
    launch, marks = losing_its_chief(launches, 3)
    os.kill(launcher_on(launches, "h1"), signal.SIGKILL)
    until(marks[1].exists, otherwise="it did not start again")
    chief = launches.servers.hosts["h1"]
    chief.set_link("down")
    chief.kill()
    until(lambda: len(launches.on_hosts()) <= 1, timeout=80, otherwise="the others did not end")
    launches.servers.start("h1")
    chief.set_link("up")
    see_it_done(launches, launch, 3)


@pytest.mark.slow
def test_an_elastic_run_whose_chief_does_not_come_back_ends(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(3)
    launch = in_training(launches, "--grace", 2, "--min-workers", 2, "--rejoin-timeout", 4, "--connect-timeout", 15)
    launches.servers.hosts["h1"].kill()
    assert launch.end() == 4, launch.err
    assert launch.err.count("error: ") == 1, launch.err
    assert "error: h1, which has the chief, was lost, and is not back after 4 s (--rejoin-timeout)" in launch.err
    assert f"The same command with --resume auto --run-dir runs/{launches.run().name} goes on" in launch.err


def test_a_line_of_a_script_that_looks_like_a_report_hides_nothing(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(2)
    complaints = ["0:complain:error: sample 3 skipped", "0:complain:goes on"]
    launch = launches.launch("train.py", "*:listen", *complaints)
    assert launch.end() == 0, launch.err
    assert "h1: error: sample 3 skipped\nh1: goes on\n" in launch.err
    assert launch.err.count("sample 3") == 1
