"""A run that `tfdist launch --detach` leaves to its hosts."""

from __future__ import annotations

import re
from pathlib import Path

from tests.clusters.ssh.launches import Launches, MakeHosts
from tests.helpers.waiting import until


def detached(launches: Launches, *options: object) -> str:
    """Starts a run that trains, and returns what the launch has said of it."""
    launch = launches.launch("--detach", *options, "train.py", "*:listen", "*:print:hello", "*:train:0.05")
    assert launch.end() == 0, launch.err
    return launch.err


def test_a_run_outlives_its_launch_and_can_be_watched_and_stopped(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(2)
    said = detached(launches)
    run = launches.run()
    assert f"detached: {run} on h1, h2\n" in said
    ssh = f"ssh -F {launches.servers.config} h1"
    assert f"  watch it: {ssh} " in said and f"  stop it:  {ssh} " in said
    until(lambda: all((run / f"state/worker-{index}.json").exists() for index in (0, 1)))
    first = launches.servers.hosts["h1"]
    status = launches.start("status", run, on=first)
    assert status.end() == 0 and "running" in status.out, status.out + status.err
    assert "hello" in Path(f"{run}.h1.log").read_text()

    elsewhere = launches.start("stop", run)
    assert elsewhere.end() == 2
    assert re.search(rf"error: .*runs on {first.name}.*ssh {first.name} .*tfdist stop {run}", elsewhere.err)

    stop = launches.start("stop", run, on=first)
    assert stop.end() == 0, stop.err
    assert re.fullmatch(rf"stopped: {run} at step \d+, in \d.*\n", stop.out), stop.out
    until(lambda: not launches.on_hosts(), timeout=20, otherwise="something of the run is left")
    assert "SIGTERM to the launcher" in Path(f"{run}.h1.log").read_text()

    again = launches.start("stop", run, on=first)
    assert again.end() == 2 and "is over" in again.err


def test_a_detached_run_that_fails_at_once_is_no_success(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(2)
    (launches.folder / "taken").mkdir()
    (launches.folder / "taken/file").touch()
    launch = launches.launch("--detach", "--run-dir", "taken", "train.py", "*:listen")
    assert launch.end() == 2
    assert "taken" in launch.err and "is not empty" in launch.err, launch.err
    assert "detached: " not in launch.err
