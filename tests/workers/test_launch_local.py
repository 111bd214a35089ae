"""One launcher with stand-in workers."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from tests.helpers.waiting import until
from tests.workers.launcher_processes import Launcher, Launchers, left_behind
from tfdist.rundir import RunDir, State, WorkerState


def run_dir(launcher: Launcher) -> RunDir:
    (path,) = (launcher.folder / "runs").iterdir()
    return RunDir(path)


@pytest.mark.parametrize("nproc", [1, 3])
def test_workers_run_to_their_end(launchers: Launchers, nproc: int) -> None:
    launcher = launchers.start(nproc=nproc, args=["*:print:hello", "*:complain:oh"], name="job")
    assert launcher.end() == 0, launcher.err
    assert launcher.out == "hello\n" and launcher.err == "oh\n"  # the chief's alone
    run = run_dir(launcher)
    assert run.path.name.startswith("job-")
    for index in range(nproc):
        assert sorted(run.log_file(index, 0).read_text().split()) == ["hello", "oh"]
    assert not run.failure_file.exists()


def test_workers_can_listen_on_the_ports_that_the_launcher_holds(launchers: Launchers) -> None:
    launcher = launchers.start(nproc=2, args=["*:listen"], show="all", log_prefix=True)
    assert launcher.end() == 0, launcher.err
    assert sorted(line[:23] for line in launcher.out.splitlines()) == [
        "[worker 0] listening on",
        "[worker 1] listening on",
    ]


def test_lines_without_an_end_are_shown_and_logged(launchers: Launchers) -> None:
    launcher = launchers.start(args=["0:write:50%"])
    assert launcher.end() == 0
    assert launcher.out == "50%"
    assert run_dir(launcher).log_file(0, 0).read_text() == "50%"


@pytest.mark.parametrize(("show", "shown"), [("none", []), ("all", ["a", "b"]), ("chief", ["a"])])
def test_show_chooses_whose_output_is_shown(launchers: Launchers, show: str, shown: list[str]) -> None:
    launcher = launchers.start(nproc=2, args=["0:print:a", "1:print:b"], show=show)
    assert launcher.end() == 0
    assert sorted(launcher.out.split()) == shown


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["*:code:3"], 3),
        (["*:meet:.", "*:leave:3"], 3),
        (["0:code:3", "0:touch:done", "1:await:done", "1:code:3"], 3),  # it may follow a little later
        (["1:code:3"], 4),
        (["1:raise:ValueError boom", "0:hang"], 4),
        (["1:data:No samples.", "0:hang"], 5),
        (["1:signal:9", "0:hang"], 4),
    ],
)
def test_the_exit_code(launchers: Launchers, args: list[str], code: int) -> None:
    launcher = launchers.start(nproc=2, args=args)
    assert launcher.end() == code, launcher.err
    failed = code in (4, 5)
    assert run_dir(launcher).failure_file.exists() == failed
    assert ("worker 1 (" in launcher.err) == failed


def test_the_exit_code_of_one_worker_is_its_own(launchers: Launchers) -> None:
    assert launchers.start(nproc=1, args=["0:code:7"]).end() == 7


def test_a_worker_that_cannot_write_its_error_sends_it(launchers: Launchers) -> None:
    launcher = launchers.start(nproc=2, args=["1:tell:The disk is full.", "0:hang"])
    assert launcher.end() == 2
    assert launcher.err.startswith("error: worker 1 (")
    assert "The disk is full." in launcher.err


def test_a_failure_is_reported_and_nothing_is_left(launchers: Launchers) -> None:
    args = ["*:swallow", "*:child:" + str(launchers.folder / "child"), "1:print:last words", "1:raise:ValueError boom"]
    launcher = launchers.start(nproc=2, args=[*args, "*:hang"])
    assert launcher.end() == 4
    assert launcher.err.splitlines()[0].startswith("error: worker 1 (")
    assert "ValueError boom" in launcher.err
    run = run_dir(launcher)
    failure = json.loads(run.failure_file.read_text())
    assert (failure["index"], failure["kind"], failure["last_lines"]) == (1, "exception", ["last words"])
    for index in (0, 1):
        state = WorkerState.read(run.state_file(index))
        assert state is not None and state.state is State.FAILED
    assert left_behind(launcher.mark) == []  # their children are gone too


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("swallow", [True, False])
def test_a_signal_ends_everything(launchers: Launchers, number: int, code: int, swallow: bool) -> None:
    touched = [launchers.folder / f"touched-{index}" for index in (0, 1)]
    args = [f"{index}:touch:{path}" for index, path in enumerate(touched)] + ["*:hang"]
    launcher = launchers.start(nproc=2, args=[*(["*:swallow"] if swallow else []), *args])
    until(lambda: all(path.exists() for path in touched))
    launcher.send(number)
    assert launcher.end() == code
    assert launcher.err.startswith("stopped: ")
    assert left_behind(launcher.mark) == []
    for index in (0, 1):
        state = WorkerState.read(run_dir(launcher).state_file(index))
        assert state is not None and state.state is State.STOPPED


def test_the_last_lines_of_a_worker_that_crashes_are_reported(launchers: Launchers) -> None:
    """The launcher hears of the end before those of the output, which a process that the worker left keeps open.

    That process, in a session of its own, ends with the job.
    """
    daemon = launchers.folder / "daemon"
    says = [f"1:daemon:{daemon}", "1:write:first\nlast words", "1:signal:6"]
    launcher = launchers.start(nproc=2, show="none", args=[*says, "*:hang"])
    assert launcher.end() == 4
    assert "  the end of its log:\n    first\n    last words\n" in launcher.err
    assert left_behind(launcher.mark) == []


def test_a_second_ctrl_c_kills_at_once(launchers: Launchers) -> None:
    touched = launchers.folder / "touched"
    launcher = launchers.start(args=["0:swallow", f"0:touch:{touched}", "0:hang"])
    until(touched.exists)
    # Two signals of one number that come at once are one.
    launcher.send(signal.SIGINT)
    launcher.send(signal.SIGTERM)
    assert launcher.end() == 130
    assert "Ctrl-C, SIGINT to the launcher" in launcher.err
    assert left_behind(launcher.mark) == []


def test_ctrl_c_before_the_workers_run_ends_everything(launchers: Launchers) -> None:
    launcher = launchers.start(nproc=2, args=["*:hang"])
    until(lambda: (launcher.folder / "runs").exists())
    launcher.send(signal.SIGINT)
    assert launcher.end() == 130
    assert left_behind(launcher.mark) == []


def test_a_launcher_that_is_killed_leaves_no_worker(launchers: Launchers) -> None:
    child = launchers.folder / "child"
    launcher = launchers.start(nproc=2, args=[f"1:child:{child}", "*:swallow", "*:hang"])
    until(child.exists)
    launcher.process.kill()
    assert launcher.end() == -signal.SIGKILL
    assert left_behind(launcher.mark) == []


def test_a_background_launcher_still_hears_sigint(launchers: Launchers) -> None:
    # Shells without job control start what is in the background with SIGINT ignored.
    touched = launchers.folder / "touched"
    prefix = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
    launcher = launchers.start(prefix=prefix, args=[f"0:touch:{touched}", "0:hang"])
    until(touched.exists)
    launcher.send(signal.SIGINT)
    assert launcher.end() == 130


def test_a_port_that_is_taken_is_named(launchers: Launchers, two_ports: tuple[int, int]) -> None:
    first, second = two_ports
    with socket.socket() as server:
        server.bind(("127.0.0.1", second))
        server.listen()
        launcher = launchers.start(workers=f"127.0.0.1:{first},127.0.0.1:{second}")
        assert launcher.end() == 2
    assert f"Port {second}" in launcher.err and f"pid {os.getpid()} (" in launcher.err
    assert not (launcher.folder / "runs").exists()


def test_a_second_job_on_the_same_ports_is_refused(launchers: Launchers, two_ports: tuple[int, int]) -> None:
    workers = ",".join(f"127.0.0.1:{port}" for port in two_ports)
    touched = launchers.folder / "touched"
    first = launchers.start(folder="a", workers=workers, args=[f"0:touch:{touched}", "*:hang"])
    until(touched.exists)
    second = launchers.start(folder="b", workers=workers)
    assert second.end() == 2
    assert f"another tfdist job: pid {first.process.pid} (" in second.err
    first.send(signal.SIGTERM)
    assert first.end() == 143
    # TIME_WAIT or not, the next job may have them.
    assert launchers.start(folder="c", workers=workers, args=["*:listen"]).end() == 0


@pytest.mark.parametrize("options", [{}, {"overwrite": True}])
def test_a_run_directory_that_is_used_is_refused(launchers: Launchers, options: dict[str, bool]) -> None:
    (launchers.folder / "used").mkdir()
    (launchers.folder / "used" / "mine.txt").write_text("mine")
    launcher = launchers.start(nproc=2, run_dir="used", **options)
    assert launcher.end() == 2
    assert "not empty" in launcher.err
    assert os.listdir(launchers.folder / "used") == ["mine.txt"]


def test_a_running_job_is_not_overwritten(launchers: Launchers) -> None:
    touched = launchers.folder / "touched"
    first = launchers.start(nproc=1, run_dir="r", args=[f"0:touch:{touched}", "0:hang"])
    until(touched.exists)
    second = launchers.start(nproc=1, run_dir="r", overwrite=True)
    assert second.end() == 2
    assert "still running" in second.err
    first.send(signal.SIGTERM)
    assert first.end() == 143
    assert launchers.start(nproc=1, run_dir="r", overwrite=True).end() == 0


def test_the_launcher_is_small_and_quick(launchers: Launchers) -> None:
    touched = launchers.folder / "touched"
    launcher = launchers.start(nproc=2, args=[f"1:touch:{touched}", "*:hang"])
    until(touched.exists)
    status = Path(f"/proc/{launcher.process.pid}/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    assert peak < 60 * 1024
    launcher.send(signal.SIGTERM)
    launcher.end()


def test_workers_survive_the_terminal(launchers: Launchers) -> None:
    touched = launchers.folder / "touched"
    flood = [f"0:write:{'x' * 4000}"] * 20
    launcher = launchers.start(args=[*flood, f"0:touch:{touched}", "0:hang"])
    assert launcher.process.stdout is not None
    launcher.process.stdout.close()  # as `| head` does
    launcher.process.stdout = None
    until(touched.exists)
    launcher.send(signal.SIGTERM)
    assert launcher.end() == 143


def test_a_blocked_terminal_does_not_keep_the_launcher_from_ending(launchers: Launchers) -> None:
    touched = launchers.folder / "touched"
    launcher = launchers.start(args=[f"0:touch:{touched}", f"0:write:{'x' * 60_000}", "*:flood", "0:hang"])
    until(touched.exists)
    # Nobody reads: the pipe is full, the worker waits, and the launcher must still hear the signal.
    launcher.send(signal.SIGTERM)
    assert launcher.process.wait(30) == 143
    assert left_behind(launcher.mark) == []
    launcher.end()


@pytest.mark.slow
@pytest.mark.bound(600)
def test_two_hundred_restarts_take_no_more_than_a_few(launchers: Launchers) -> None:
    """Of descriptors, threads, memory and shared memory; children that a worker leaves end with each attempt."""
    taken, daemon = launchers.folder / "taken", launchers.folder / "daemon"
    kills = [f"0@{attempt}:signal:9" for attempt in range(200)]
    says = [f"0:daemon:{daemon}", f"0:measure:{taken}", *kills]
    launcher = launchers.start(nproc=2, args=says, max_restarts=1000, delay=0.0, show="none")
    assert launcher.end(540) == 0, launcher.err[-2000:]
    lines = [json.loads(line) for line in taken.read_text().splitlines()]
    assert [line["attempt"] for line in lines] == list(range(201))
    early, late = lines[10:20], lines[-10:]
    for name, more in (("descriptors", 0), ("threads", 0), ("kilobytes", 4096), ("shared", 0)):
        assert min(each[name] for each in late) <= max(each[name] for each in early) + more, name
