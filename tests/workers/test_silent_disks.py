"""A run directory on a disk that stops answering holds nobody up."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.helpers.disks import silent_disk
from tests.helpers.waiting import until
from tests.workers.launcher_processes import Launchers


@pytest.mark.bound(120)
@pytest.mark.parametrize(("action", "code"), [("signal:9", 4), ("code:0", 0)])
def test_a_job_ends_although_the_disk_of_its_run_directory_does_not_answer(
    launchers: Launchers, tmp_path: Path, action: str, code: int
) -> None:
    trains, silent = tmp_path / "trains", tmp_path / "silent"
    with silent_disk(tmp_path / "behind", tmp_path / "disk") as server:
        args = [f"0:touch:{trains}", f"*:await:{silent}", f"1:{action}", *(["0:hang"] if code else [])]
        launcher = launchers.start(nproc=2, run_dir=str(tmp_path / "disk" / "run"), args=args)
        until(trains.exists)
        server.send_signal(signal.SIGSTOP)
        silent.touch()
        assert launcher.end(60) == code, launcher.err
    if code:
        assert "error: worker 1 (" in launcher.err and "killed by SIGKILL" in launcher.err
        assert f"the failure record could not be written: The disk of {tmp_path}/disk/run does not" in launcher.err


@pytest.mark.bound(120)
def test_a_disk_that_does_not_answer_at_the_start_is_an_error(launchers: Launchers, tmp_path: Path) -> None:
    with silent_disk(tmp_path / "behind", tmp_path / "disk") as server:
        os.listdir(tmp_path / "disk")
        server.send_signal(signal.SIGSTOP)
        launcher = launchers.start(run_dir=str(tmp_path / "disk" / "run"))
        assert launcher.end(60) == 2
    assert "error: The disk of " in launcher.err and "does not answer" in launcher.err


@pytest.mark.bound(120)
def test_a_worker_prints_on_although_the_disk_of_its_log_does_not_answer(launchers: Launchers, tmp_path: Path) -> None:
    trains, silent = tmp_path / "trains", tmp_path / "silent"
    with silent_disk(tmp_path / "behind", tmp_path / "disk") as server:
        args = [f"0:touch:{trains}", f"0:await:{silent}", "0:flood", "0:flood", "0:flood", "0:print:all is said"]
        launcher = launchers.start(run_dir=str(tmp_path / "disk" / "run"), args=args)
        until(trains.exists)
        server.send_signal(signal.SIGSTOP)
        silent.touch()
        assert launcher.end(90) == 0, launcher.err
    assert launcher.out.endswith("all is said\n")
