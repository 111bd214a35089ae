from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import all_reduce
from benchmarks.all_reduce_report import Place
from benchmarks.comparison import common_options
from benchmarks.comparison.rounds import Record
from benchmarks.comparison.torch_python import TorchPython
from benchmarks.workers.all_reduce_spec import AllReduceSpec, timed
from benchmarks.workers.turn_taking import SAID, TURN
from tfdist.launch.worker_options import Communication, Compression
from tfdist.runtime.collectives.calls import Call
from tfdist.verify.hosts.namespace_hosts import NamespaceHost, NamespacesUnavailableError, namespace_hosts

TORCH = TorchPython("torch-python", {"torch": "2.13.0"})


def test_the_engines_are_those_of_the_command_line_that_a_cpu_has() -> None:
    assert {*all_reduce.engines(), "nccl"} == set(Communication.__args__)
    assert {*all_reduce.compressions(), "none"} == set(Compression.__args__)


def test_each_engine_sums_the_same(tmp_path: Path) -> None:
    job = all_reduce.SumJob(Place(1, 3), (4, 5), 7, 60.0, ("--quiet",))
    found = job.contestants([all_reduce.Engine("ring", None)], TORCH)
    with found["tfdist, ring"](tmp_path) as (command,):
        text = " ".join(command.arguments)
        assert (
            "--nproc 3 " in text and "--communication ring --quiet -m benchmarks.workers.tensorflow_all_reduce" in text
        )
    with found["gloo"](tmp_path) as commands:
        assert [command.cores for command in commands] == [(4,), (5,), (4,)]
        specs = [AllReduceSpec.parse(each.arguments[-1]) for each in commands]
    assert [spec.index for spec in specs] == [0, 1, 2]
    assert AllReduceSpec.parse(command.arguments[-1]) == specs[0]
    assert set(specs[0].sizes) == {"4000", "2700000", "98000000"} and specs[0].rounds == 7
    # While another contestant has its turn, this one's workers wait in a sum.
    assert specs[0].seconds >= 2 * 7 * 60 and f"--step-timeout {specs[0].seconds:.0f} " in text


def test_each_host_starts_its_workers(tmp_path: Path) -> None:
    hosts = [NamespaceHost(f"host-{n}", f"10.91.0.{n}", "", 1000 + n) for n in (1, 2)]
    job = all_reduce.SumJob(Place(2, 2), (4, 5), 7, 60.0, (), hosts)
    both = [all_reduce.Engine("auto", None), all_reduce.Engine("auto", "bfloat16")]
    found = job.contestants(both, TORCH)
    assert list(found) == ["tfdist, auto", "tfdist, auto+bfloat16", "gloo"]
    addresses = []
    for engine in both:
        with found[engine.name](tmp_path) as commands:
            texts = [" ".join(command.arguments) for command in commands]
        assert [text.split(" -- ")[0] for text in texts] == [f"nsenter --target {1000 + n} --net --uts" for n in (1, 2)]
        addresses += [text.split("--workers ")[1].split()[0] for text in texts]
        assert all(" ".join(engine.options) in text for text in texts)
        assert len({text.split("--run-dir ")[1].split()[0] for text in texts}) == 2
    # The same on both hosts; another job has other ports, as both are there at once.
    assert addresses[:2] == ["10.91.0.1:20000,10.91.0.1:20001,10.91.0.2:20000,10.91.0.2:20001"] * 2
    assert addresses[2:] == ["10.91.0.1:20002,10.91.0.1:20003,10.91.0.2:20002,10.91.0.2:20003"] * 2
    with found["gloo"](tmp_path) as commands:
        assert [command.arguments[2] for command in commands] == ["1001", "1001", "1002", "1002"]
        assert {command.environment["GLOO_SOCKET_IFNAME"] for command in commands} == {"eth0"}


@pytest.mark.parametrize(
    ("hosts", "workers", "serving"),
    [(1, 1, ["auto"]), (1, 2, ["auto", "ring", "shm"]), (2, 1, ["auto", "ring"]), (2, 2, ["auto", "ring", "shm"])],
)
def test_an_engine_sums_where_it_has_workers_to_sum(hosts: int, workers: int, serving: list[str]) -> None:
    chosen = [all_reduce.Engine(name, None) for name in all_reduce.engines()]
    assert [engine.communication for engine in chosen if engine.serves(Place(hosts, workers))] == serving


def test_a_sum_that_is_wrong_is_no_time() -> None:
    def is_all(total: list[float], number: float) -> bool:
        return set(total) == {number}

    def time(total: list[float]) -> float:
        return timed(lambda: [1.0] * 3, lambda ones: total, 2, 3.0, is_all)

    assert time([3.0, 3.0, 3.0]) >= 0
    with pytest.raises(RuntimeError, match="expected sums of 3. Received: 1"):
        time([3.0, 3.0, 1.0])
    with pytest.raises(RuntimeError, match="expected sums of 3. Received: other numbers"):
        time([3.0, 1.0, 3.0])


def test_what_came_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    def run(contestants: dict, rounds: int, seconds: float, report: object) -> dict[str, Record]:
        factor = {"tfdist, auto": 1, "tfdist, ring": 3, "gloo": 2}
        rounds = [[{"seconds": dict.fromkeys(map(str, all_reduce.SIZES), second / 1000)}] for second in (1.0, 2.0, 4.0)]
        records = {name: Record(_scaled(rounds, factor[name])) for name in contestants}
        if len(runs) == 2:
            records["gloo"] = Record(failure="It failed with exit code 1.")
        report(0, "gloo", records["gloo"])
        runs.append(list(contestants))
        return records

    runs: list[list[str]] = []
    monkeypatch.setattr(all_reduce, "run_in_turns", run)
    monkeypatch.setattr(all_reduce, "run_with_starts", run)
    monkeypatch.setattr(common_options, "find_torch", lambda path, changed: TORCH)
    options = ["--workers", "1,2,4", "--communication", "auto,ring", "--out", str(tmp_path)]
    assert all_reduce.main(options) == 1
    assert runs == [["tfdist, auto", "gloo"], *[["tfdist, auto", "tfdist, ring", "gloo"]] * 2]
    times, ratios, *rest = tables(capsys.readouterr().out.partition("Other processes took")[2])
    assert times[0] == ["workers", "tfdist, auto", "tfdist, ring", "gloo"]
    assert times[2] == ["1", "2.00 (1.00 to 4.00)", "–", "4.00 (2.00 to 8.00)"]
    assert times[4] == ["4", "2.00 (1.00 to 4.00)", "6.00 (3.00 to 12.0)", "failed"]
    assert ratios[3] == ["2", "3.00 (3.00 to 3.00)", "2.00 (2.00 to 2.00)"]
    growth = rest[-1]
    assert len(rest) == 2 * (len(all_reduce.SIZES) - 1) + 1 and growth[0] == [
        "size",
        "contestant",
        "2 workers",
        "4 workers",
    ]
    assert growth[2] == ["4.00 kB", "tfdist, auto", "1.00", "1.00"] and growth[4][-2:] == ["1.00", "–"]
    sums = json.loads((tmp_path / "all-reduce.json").read_text())["sums"]
    assert [(each["hosts"], each["workers"]) for each in sums] == [(1, 1)] * 2 + [(1, 2)] * 3 + [(1, 4)] * 3
    assert sums[-1]["failure"] == "It failed with exit code 1."


def _scaled(rounds: list, factor: int) -> list:
    return [
        [{"seconds": {size: factor * second for size, second in process["seconds"].items()}} for process in said]
        for said in rounds
    ]


def tables(page: str) -> list[list[list[str]]]:
    """The cells of each table of a page."""
    found: list[list[list[str]]] = [[]]
    for line in page.splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.split("|")[1:-1]])
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


@pytest.mark.parametrize(("free", "stays"), [(10**12, True), (10**9, False)])
def test_jobs_stay_while_they_fit_into_memory(
    free: int, stays: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[tuple[str, int]] = []

    def runner(name: str):  # noqa: ANN202
        def run(contestants: dict, rounds: int, seconds: float, report: object) -> dict[str, Record]:
            with contestants["tfdist, auto"](tmp_path) as (command,):
                ran.append((name, AllReduceSpec.parse(command.arguments[-1]).rounds))
            return {name: Record(failure="no") for name in contestants}

        return run

    for name in ("run_in_turns", "run_with_starts"):
        monkeypatch.setattr(all_reduce, name, runner(name))
    monkeypatch.setattr(all_reduce, "free_memory", lambda: free)
    monkeypatch.setattr(common_options, "find_torch", lambda path, changed: None)
    all_reduce.main(["--workers", "2", "--communication", "auto", "--rounds", "4", "--out", str(tmp_path / "out")])
    assert ran == ([("run_in_turns", 4)] if stays else [("run_with_starts", 1)])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--communication", "nccl"], "expected some of auto, ring"),
        (["--communication", "auto+int8"], "each also with +bfloat16 or +float16. Received: 'auto+int8'"),
        (["--communication", "auto+"], "Received: 'auto+'"),
        (["--hosts", "2", "--rate", "fast"], "such as 100mbit or 1gbit. Received: 'fast'"),
        (["--hosts", "2"], "--hosts: network namespaces need root: start this with sudo. Without --hosts"),
    ],
)
def test_what_is_wrong_is_said(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SystemExit):
        all_reduce.main(options)
    assert said in " ".join(capsys.readouterr().err.split())


def test_workers_sum_and_say_how_long_the_slowest_took(
    tmp_path: Path,
    command_line: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from benchmarks.workers import tensorflow_all_reduce

    class Slower:
        """Asks the others: one of them took an hour."""

        def run(self, call: Call, medians: dict[str, float]) -> dict[str, float]:
            assert call == Call("all_reduce", "max")
            return {size: max(seconds, 3600.0) for size, seconds in medians.items()}

    monkeypatch.setattr(tensorflow_all_reduce, "communicator_of", lambda strategy: Slower())
    # Outside of a job it would set up all devices of this process, for all tests to come.
    monkeypatch.setattr(tensorflow_all_reduce.tfdist, "is_chief", lambda: True)
    ends = {}
    for name in (TURN, SAID):
        os.mkfifo(tmp_path / name)
        ends[name] = os.open(tmp_path / name, os.O_RDWR | os.O_NONBLOCK)
    os.write(ends[TURN], b"\n\n")
    spec = AllReduceSpec(1, {"4000": 2}, tuple(os.sched_getaffinity(0)), 2, 60.0, str(tmp_path))
    command_line(spec.argument())
    tensorflow_all_reduce.main()
    started, *rounds = map(json.loads, os.read(ends[SAID], 65536).splitlines())
    assert started == {} and rounds == [{"seconds": {"4000": 3600.0}}] * 2
    for end in ends.values():
        os.close(end)


@pytest.mark.slow
def test_workers_sum(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(all_reduce, "SIZES", {4_000: 2, 2_000_000: 2})
    monkeypatch.setattr(common_options, "find_torch", lambda path, changed: None)
    assert all_reduce.main(["--rounds", "1", "--out", str(tmp_path)]) == 0
    sums = json.loads((tmp_path / "all-reduce.json").read_text())["sums"]
    assert [each["contestant"] for each in sums] == [f"tfdist, {engine}" for engine in all_reduce.engines()]


@pytest.mark.slow
def test_hosts_sum(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    try:
        with namespace_hosts(1, "1gbit"):
            pass
    except NamespacesUnavailableError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(all_reduce, "SIZES", {4_000: 2, 2_000_000: 2})
    monkeypatch.setattr(common_options, "find_torch", lambda path, changed: None)
    options = ["--hosts", "2", "--workers", "1", "--communication", "auto", "--rounds", "1", "--out", str(tmp_path)]
    assert all_reduce.main(options) == 0
    ((said,),) = json.loads((tmp_path / "all-reduce.json").read_text())["sums"][0]["said"]
    assert said["seconds"]["2000000"] > 16e6 / 1e9  # what a link of 1 gbit takes for them, at least
