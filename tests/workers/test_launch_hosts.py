"""Two and three launchers of one job on this machine, by two loopback addresses."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.marks import slow
from tests.helpers.waiting import until
from tests.workers.launcher_processes import Launcher, Launchers, write_config
from tfdist.cluster import Cluster
from tfdist.launch.environment import choose_kernels_here


@pytest.fixture
def workers(two_ports: tuple[int, int]) -> str:
    first, second = two_ports
    return f"127.0.0.1:{first},127.0.0.2:{second}"


def start_both(launchers: Launchers, workers: str, *, shared: bool = True, **options: Any) -> tuple[Launcher, Launcher]:
    folders = ("both", "both") if shared else ("first", "second")
    first, second = (
        launchers.start(folder=folder, workers=workers, index=index, **options) for index, folder in enumerate(folders)
    )
    return first, second


def marks(launchers: Launchers) -> list[Path]:
    return [launchers.folder / f"mark-{index}" for index in (0, 1)]


def hanging(launchers: Launchers) -> list[str]:
    return [*(f"{index}:touch:{path}" for index, path in enumerate(marks(launchers))), "*:hang"]


@pytest.mark.parametrize("shared", [True, False])
def test_two_launchers_run_one_job(launchers: Launchers, workers: str, shared: bool) -> None:
    both = start_both(launchers, workers, shared=shared, args=["*:listen", "*:assignment"], show="all", name="job")
    assert [each.end() for each in both] == [0, 0], [each.err for each in both]
    seeds = [each.out.partition("seed=")[2].split()[0] for each in both]
    assert seeds[0] == seeds[1]
    runs = [[path.name for path in (each.folder / "runs").iterdir()] for each in both]
    assert runs[0] == runs[1] and len(runs[0]) == 1  # one name on both hosts
    for index, each in enumerate(both):
        logs = each.folder / "runs" / runs[0][0] / "logs"
        names = {path.name for path in logs.iterdir()}
        assert names == ({"worker-0.0.log", "worker-1.0.log"} if shared else {f"worker-{index}.0.log"})


def test_a_launcher_without_the_chief_survives_its_terminal(launchers: Launchers, workers: str) -> None:
    first, second = start_both(launchers, workers)
    assert second.process.stdout is not None
    second.process.stdout.close()
    second.process.stdout = None
    assert [first.end(), second.end()] == [0, 0], (first.err, second.err)


def test_a_given_run_directory_may_be_shared_or_not(launchers: Launchers, workers: str) -> None:
    both = start_both(launchers, workers, run_dir="r", shared=False)
    assert [each.end() for each in both] == [0, 0], [each.err for each in both]
    again = start_both(launchers, workers, run_dir="r", shared=False)
    assert [each.end() for each in again] == [2, 2]
    assert all("--overwrite" in each.err for each in again)
    replaced = start_both(launchers, workers, run_dir="r", shared=False, overwrite=True)
    assert [each.end() for each in replaced] == [0, 0], [each.err for each in replaced]


def test_a_run_directory_that_is_in_use_on_one_host_ends_both(launchers: Launchers, workers: str) -> None:
    (launchers.folder / "second" / "r").mkdir(parents=True)
    (launchers.folder / "second" / "r" / "mine").touch()
    both = start_both(launchers, workers, run_dir="r", shared=False, args=["*:hang"])
    assert [each.end() for each in both] == [2, 2]
    assert all("not empty" in each.err for each in both)
    assert "worker 1 (" in both[0].err


@pytest.mark.parametrize("culprit", [0, 1])
@pytest.mark.parametrize("shared", [True, False])
def test_the_first_failure_is_reported_on_both_hosts(
    launchers: Launchers, workers: str, culprit: int, shared: bool
) -> None:
    args = [f"{culprit}:raise:ValueError boom", "*:hang"]
    both = start_both(launchers, workers, shared=shared, args=args)
    assert [each.end() for each in both] == [4, 4]
    for each in both:
        assert f"\nerror: worker {culprit} (" in f"\n{each.err}"  # a slow machine says first whom it waits for
        assert "ValueError boom" in each.err
        (run,) = (each.folder / "runs").iterdir()
        assert json.loads((run / "failure.json").read_text())["index"] == culprit


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["*:code:3"], 3),
        (["1:code:3", "1:touch:done", "0:await:done"], 4),
        (["0:code:3", "1:hang"], 4),  # nobody follows
        (["1:signal:9", "0:hang"], 4),
        (["1:data:No samples.", "0:hang"], 5),
    ],
)
def test_both_exit_with_the_jobs_code(launchers: Launchers, workers: str, args: list[str], code: int) -> None:
    both = start_both(launchers, workers, args=args)
    assert [each.end() for each in both] == [code, code], [each.err for each in both]


@pytest.mark.parametrize("stopped", [0, 1])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_one_ends_both(launchers: Launchers, workers: str, stopped: int, number: int, code: int) -> None:
    both = start_both(launchers, workers, args=hanging(launchers))
    until(lambda: all(path.exists() for path in marks(launchers)))
    both[stopped].send(number)
    assert [each.end() for each in both] == [code, code]


@pytest.mark.parametrize("killed", [0, 1])
def test_a_launcher_that_is_killed_is_named_by_the_other(launchers: Launchers, workers: str, killed: int) -> None:
    both = start_both(launchers, workers, args=hanging(launchers))
    until(lambda: all(path.exists() for path in marks(launchers)))
    both[killed].send(signal.SIGKILL)
    other = both[1 - killed]
    assert other.end() == 4
    assert f"error: worker {killed} (" in other.err and "is gone" in other.err
    both[killed].end()


@pytest.mark.parametrize("stopped", [0, slow(1)])
def test_a_launcher_that_is_stopped_is_named_by_the_other_and_ends_when_it_runs_again(
    launchers: Launchers, workers: str, stopped: int
) -> None:
    args = [*(f"{index}:touch:{path}" for index, path in enumerate(marks(launchers))), "*:train:0.1"]
    both = start_both(launchers, workers, args=args, silence=6)
    until(lambda: all(path.exists() for path in marks(launchers)))
    both[stopped].send(signal.SIGSTOP)
    other = both[1 - stopped]
    assert other.end() == 4
    assert other.err.startswith(f"error: worker {stopped} (") and "has not answered for 6 s: it is stopped" in other.err
    both[stopped].send(signal.SIGCONT)
    assert both[stopped].end() == 4
    assert f"error: worker {1 - stopped} (" in both[stopped].err and "is gone" in both[stopped].err


@pytest.mark.slow
def test_a_launcher_that_is_stopped_for_less_goes_on(launchers: Launchers, workers: str) -> None:
    """Both are: what one misses while it is stopped itself is no silence of the other."""
    args = [*(f"{index}:touch:{path}" for index, path in enumerate(marks(launchers))), "*:train:0.1"]
    both = start_both(launchers, workers, args=args, silence=6)
    until(lambda: all(path.exists() for path in marks(launchers)))
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for each in both:
            each.send(number)
        time.sleep(7)
    both[0].send(signal.SIGTERM)
    assert [each.end() for each in both] == [143, 143], [each.err for each in both]


def test_ctrl_c_while_forming_ends_at_once(launchers: Launchers, workers: str) -> None:
    launcher = launchers.start(workers=workers, index=0)
    until(lambda: listens(workers, 0))
    launcher.send(signal.SIGINT)
    assert launcher.end() == 130


def test_a_missing_launcher_is_named(launchers: Launchers, workers: str) -> None:
    launcher = launchers.start(workers=workers, index=1, start_timeout=2)
    assert launcher.end() == 3
    assert f"worker 0 ({Cluster.parse(workers).workers[0]}) refuses the connection" in launcher.err
    assert "worker 1 (" not in launcher.err
    assert not (launcher.folder / "runs").exists()


def test_different_worker_lists_end_both_at_once(launchers: Launchers, workers: str) -> None:
    first = launchers.start(workers=workers, index=0)
    second = launchers.start(workers=f"{workers},127.0.0.3:19999", index=1)
    assert [each.end() for each in (first, second)] == [3, 3]
    assert all("another worker list" in each.err for each in (first, second))


def test_different_configs_end_both_at_once(launchers: Launchers, workers: str) -> None:
    first = launchers.start(workers=workers, index=0, config=write_config(launchers.folder / "first", 3))
    second = launchers.start(folder="b", workers=workers, index=1, config=write_config(launchers.folder / "second", 4))
    assert [each.end() for each in (first, second)] == [3, 3]
    assert all("fit.epochs: 4 on " in each.err for each in (first, second))
    assert all("path" not in each.err for each in (first, second))
    assert not [each.folder for each in (first, second) if (each.folder / "runs").exists()]


def test_workers_get_the_config_that_their_launcher_read(launchers: Launchers, workers: str) -> None:
    """Each host has its own file, to which paths are relative; what is edited after the reading counts for nothing."""
    folders = [launchers.folder / name for name in ("first", "second")]
    files = [write_config(folder, 3) for folder in folders]
    options: dict[str, Any] = {"workers": workers, "args": ["*:config"], "show": "all"}
    first = launchers.start(index=0, config=files[0], **options)
    until(lambda: listens(workers, 0))
    write_config(folders[0], 5)
    second = launchers.start(folder="b", index=1, config=files[1], **options)
    assert [each.end() for each in (first, second)] == [0, 0], (first.err, second.err)
    for each, folder in zip((first, second), folders, strict=True):
        assert f"3 epochs of {folder}/x.npz" in each.out


KERNELS = "TF_ENABLE_ONEDNN_OPTS"
UNSET, OTHER = (
    ("env", "-u", KERNELS),
    ("env", f"{KERNELS}={int(choose_kernels_here(environ={}).kernels != 'onednn')}"),
)
"""An environment that leaves the kernels open, and one with those that this machine would not choose."""


def test_workers_compute_by_the_kernels_of_the_chiefs_host(launchers: Launchers, workers: str) -> None:
    options: dict[str, Any] = {"workers": workers, "args": [f"*:environ:{KERNELS}"], "show": "all"}
    both = [launchers.start(prefix=prefix, index=n, **options) for n, prefix in enumerate((OTHER, UNSET))]
    assert [each.end() for each in both] == [0, 0], [each.err for each in both]
    assert all(OTHER[-1] in each.out for each in both)


def test_an_environment_with_other_kernels_ends_both_at_once(
    launchers: Launchers, workers: str
) -> None:
    both = [launchers.start(prefix=prefix, index=n, workers=workers) for n, prefix in enumerate((UNSET, OTHER))]
    assert [each.end() for each in both] == [3, 3]
    assert all(f"as the environment has {OTHER[-1]}" in each.err for each in both), [each.err for each in both]
    assert not (launchers.folder / "runs").exists()


def test_a_launcher_may_come_late(launchers: Launchers, workers: str) -> None:
    first = launchers.start(folder="a", workers=workers, index=1)
    until(lambda: listens(workers, 1))
    second = launchers.start(folder="a", workers=workers, index=0)
    assert [each.end() for each in (first, second)] == [0, 0], (first.err, second.err)


def listens(workers: str, index: int) -> bool:
    port = Cluster.parse(workers).workers[index].port
    return any(f":{port:04X} " in line and " 0A " in line for line in Path("/proc/net/tcp6").read_text().splitlines())


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_stopped_process_is_named_on_every_host(launchers: Launchers, workers: str, stopped: int) -> None:
    """Also where it is another host's, and all that this one sees is that a collective broke off."""
    there, fails = launchers.folder / "there", 1 - stopped
    args = [
        *("*:limit:600", "*:step:5", f"{stopped}:touch:{there}", f"{stopped}:stop"),
        *(f"{fails}:await:{there}", f"{fails}:raise:WorkerFailedError it broke off"),
    ]
    for launcher in start_both(launchers, workers, args=args):
        assert launcher.end() == 4
        assert f"worker {stopped} (" in launcher.err.splitlines()[0] and "SIGSTOP" in launcher.err, launcher.err
