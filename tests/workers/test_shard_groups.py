"""Groups of workers that hold a copy each of what is cut (`--shard-over`) have the numbers of one device."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.exactness.cases import in_turns
from tests.exactness.comparison import assert_same, assert_same_case
from tests.helpers.cli_process import begun, tfdist
from tests.helpers.marks import named, slow
from tests.helpers.resumable_model import write_config
from tests.workers.outcome_jobs import OutcomeJobs
from tests.workers.test_resume import end_of, last_step, same, same_but_for_rounding, train, train_and_kill
from tests.workers.test_sharding import BOUND, NAMES, SCRIPTS, SLOW, assert_as_alone
from tfdist.rundir import RunDir
from tfdist.verify.hosts.namespace_hosts import NamespaceHost

JOBS = in_turns([("zero3", "shm"), ("zero1", "shm"), ("zero2", "shm"), ("zero3", "ring")], NAMES)
"""By mode and communication: the rows that run with them, on four workers."""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> OutcomeJobs:
    return OutcomeJobs(tmp_path_factory.mktemp("alone"), "tests.exactness", NAMES, BOUND)


def grouped(folder: Path, mode: str, communication: str, how: str = "", names: list[str] = NAMES) -> OutcomeJobs:
    cuts = f"tests.helpers.cut_weights {how} tests.exactness" if mode == "zero3" else "tests.exactness"
    options = ["--shard", mode, "--shard-over", "2", "--communication", communication]
    return OutcomeJobs(folder, cuts, names, BOUND, options)


@pytest.fixture(scope="module")
def in_groups(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], OutcomeJobs]:
    return {
        (mode, communication): grouped(
            tmp_path_factory.mktemp(f"{mode}-{communication}"), mode, communication, names=names
        )
        for (mode, communication), names in JOBS.items()
    }


@pytest.mark.slow
@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(("job", "name"), [(job, name) for job, names in JOBS.items() for name in names], ids=named)
def test_numbers_of_one_device(
    job: tuple[str, str], name: str, alone: OutcomeJobs, in_groups: dict[tuple[str, str], OutcomeJobs]
) -> None:
    (one,) = alone.outcomes(1, 65)
    for index, worker in enumerate(in_groups[job].outcomes(4, 65)):
        assert_as_alone(name, one, worker, f"worker {index}: {name}")


def on_hosts(folder: Path, hosts: Sequence[NamespaceHost], mode: str, options: Sequence[object], module: str,
             names: Sequence[str]) -> tuple[str, list[dict[str, Any]]]:  # fmt: skip
    """Two workers on each host: what the chief's launcher prints, and what each worker wrote."""
    workers = ",".join(f"{host.ipv4}:{port}" for host in hosts for port in (20000, 20001))
    target = ["-m", *(["tests.helpers.cut_weights"] if mode == "zero3" else []), module]
    with contextlib.ExitStack() as stack:
        launchers = [
            stack.enter_context(
                begun("train", "--workers", workers, "--shard", mode, *options, "--run-dir", folder / host.name,
                      *target, folder / "said", 65, *names, prefix=host.prefix, output=subprocess.PIPE)
            )
            for host in hosts
        ]  # fmt: skip
        said = [launcher.communicate(timeout=BOUND + 120) for launcher in launchers]
    assert [launcher.returncode for launcher in launchers] == [0, 0], said
    files = [Path(f"{folder / 'said'}.{index}") for index in range(4)]
    return said[0][1], [dict(map(json.loads, file.read_text().splitlines())) for file in files]


@pytest.mark.bound(BOUND + 260)
@pytest.mark.parametrize("mode", ["zero3", slow("zero2")])
def test_each_host_has_a_copy(mode: str, hosts: tuple[NamespaceHost, NamespaceHost], tmp_path: Path) -> None:
    """Two workers on each of two hosts: parts are put together in memory, and summed between the hosts."""
    names = ["plain", "gradient_accumulation_and_clipping"] if SLOW else ["gradient_accumulation_and_clipping"]
    (one,) = OutcomeJobs(tmp_path, "tests.exactness", names, BOUND).outcomes(1, 65)
    printed, said = on_hosts(tmp_path, hosts, mode, ["--shard-over", "host"], "tests.exactness", names)
    assert f"shm+ring, {mode} over 2 workers in each of 2 groups" in printed.replace("oneDNN, ", "")
    for index, worker in enumerate(said):
        for name in names:
            assert_as_alone(name, one, worker, f"worker {index}: {name}")


@pytest.mark.slow
@pytest.mark.bound(BOUND + 260)
@pytest.mark.parametrize(("communication", "over"), [("auto", "all"), ("ring", "all"), ("ring", "host")])
def test_weights_are_sent_ahead_over_a_network(
    communication: str, over: str, hosts: tuple[NamespaceHost, NamespaceHost], tmp_path: Path
) -> None:
    names = [
        "plain",
        "attention_and_layer_normalization",
        "shared_layers_and_nested_models",
        "gradient_accumulation_and_clipping",
        "loss_scaling_with_an_overflow_and_accumulation",
        "sparse_gradients_by_adagrad",
    ]
    (one,) = OutcomeJobs(tmp_path, "tests.exactness", names, BOUND).outcomes(1, 65)
    options = ["--communication", communication, "--shard-over", over]
    _, said = on_hosts(tmp_path, hosts, "zero3", options, "tests.exactness", names)
    for index, worker in enumerate(said):
        for name in names:
            assert_as_alone(name, one, worker, f"worker {index}: {name}")


@pytest.mark.slow
@pytest.mark.bound(2 * BOUND + 60)
def test_groups_that_are_not_summed_have_other_numbers(tmp_path: Path) -> None:
    (one,) = OutcomeJobs(tmp_path, "tests.exactness", ["plain"], BOUND).outcomes(1, 65)
    for worker in grouped(tmp_path, "zero3", "shm", "--apart", ["plain"]).outcomes(4, 65):
        with pytest.raises(AssertionError):
            assert_same_case("plain", one["plain"], worker["plain"], "apart")


def run(folder: Path, workers: int, *arguments: object, mode: str = "none", options: tuple[object, ...] = ()) -> Any:
    files, run_dir = folder / f"files-{workers}", folder / f"run-{workers}-{len(arguments)}"
    files.mkdir(exist_ok=True)
    target = ["-m", "tests.helpers.cut_weights"] if mode == "zero3" else []
    done = tfdist("train", "--nproc", workers, "--shard", mode, "--run-dir", run_dir, "--step-timeout", 60, *options,
                  *target, SCRIPTS / "sharded.py", files, *arguments, timeout=200)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    logs = [(run_dir / "logs" / f"worker-{index}.0.log").read_text() for index in range(workers)]
    return [json.loads(log.strip().splitlines()[-1]) for log in logs]


@pytest.mark.bound(500)
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["zero2", "zero3"])
def test_what_is_saved_is_what_one_device_saves(mode: str, tmp_path: Path) -> None:
    (one,) = run(tmp_path, 1)
    said = run(tmp_path, 4, tmp_path / "files-1" / "model.keras", mode=mode, options=("--shard-over", 2))
    for each in said:
        assert_same(one["gone on from model.keras"], each.pop("gone on"))
    held = [each.pop("held") - 2 for each in said]
    whole = one.pop("held") - 2
    # Each of two groups holds one copy.
    assert sum(held) == 2 * whole and max(held) <= whole / 2 + 8
    stored, weights = [each.pop("stored") for each in said], one.pop("stored")
    assert sum(stored) == weights * (2 if mode == "zero3" else 4)
    for index, each in enumerate(said):
        assert_same(one, each, f"worker {index}")
    (again,) = run(tmp_path, 1, tmp_path / "files-4" / "model.keras", "only")
    assert_same(one["gone on from model.keras"], again["gone on"])


@pytest.mark.slow
@pytest.mark.bound(900)
@pytest.mark.parametrize("mode", ["zero2", "zero3"])
def test_a_killed_run_goes_on_to_the_bit_and_in_any_groups(mode: str, tmp_path: Path) -> None:
    cut = {"build": "tests.helpers.resumable_model.model", "args": {"cut": True}}
    config, whole, killed = write_config(tmp_path, seed=3, model=cut), RunDir(tmp_path / "w"), RunDir(tmp_path / "k")
    options = ("--nproc", "4", "--shard", mode, "--shard-over", "2")
    assert train(config, whole, *options).returncode == 0
    last = train_and_kill(config, killed, 3, 30, *options)
    resumed = train(config, killed, *options, "--resume", "must")
    assert resumed.returncode == 0 and f"resumes after step {last}" in resumed.stdout
    same(end_of(whole), end_of(killed))

    plain = write_config(tmp_path, seed=3, model={**cut, "args": {"cut": True, "plain": True}})
    one, moved = RunDir(tmp_path / "one"), RunDir(tmp_path / "moved")
    assert train(plain, one).returncode == 0
    train_and_kill(plain, moved, 0, 20, *options)
    train_and_kill(plain, moved, 1, last_step(moved) + 10, "--nproc", "3", "--shard", mode, "--resume", "must")
    assert train(plain, moved, *options, "--resume", "must").returncode == 0
    same_but_for_rounding(end_of(one), end_of(moved))


def test_groups_that_the_workers_do_not_make(tmp_path: Path) -> None:
    done = tfdist("train", "--nproc", 3, "--shard", "zero2", "--shard-over", 2, "--run-dir", tmp_path / "run",
                  SCRIPTS / "sharded.py", tmp_path, timeout=60)  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Received: --shard-over 2 with 3 workers" in done.stderr
    assert not (tmp_path / "run").exists()
