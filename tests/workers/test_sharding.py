"""Workers that hold parts of an optimizer have the numbers of one device, and save and resume what it would."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.exactness.cases import CASES, in_turns
from tests.exactness.comparison import assert_same, assert_same_case
from tests.helpers.cli_process import UNCHECKED, tfdist
from tests.helpers.marks import named, slow
from tests.helpers.resumable_model import write_config
from tests.workers.outcome_jobs import OutcomeJobs
from tests.workers.test_resume import end_of, last_step, same, same_but_for_rounding, train, train_and_kill
from tfdist.rundir import RunDir

SCRIPTS = Path(__file__).parent / "scripts"
SLOW = bool(os.environ.get("TFDIST_SLOW_TESTS"))
BOUND = 3000 if SLOW else 300

NOT_CUT = {"optimizer_that_normalizes", "optimizer_that_assigns"}
NOT_CUT |= {f"states_of_{what}" for what in ("a_subclassed_model", "a_built_model", "scaled_losses")}
NOT_CUT.add("states_of_a_step_that_calls_layers")
"""Rows of optimizers with an `apply` of their own, which --shard refuses, and rows that look at an optimizer's state,
of which each worker has a shard."""

BY_DEFAULT = [
    "plain",
    "subclassed_model_built_by_fit",
    "gradient_accumulation_and_averages",
    "sparse_gradients_by_adagrad",
    "gradients_of_numpy",
    "sharpness_aware_step",
    "accumulation_by_hand",
    "whole_step_of_pairs",
    # In float32, in which oneDNN makes one operation of a convolution and its bias.
    "strided_shortcut",
]
NAMES = [name for name in CASES if name not in NOT_CUT] if SLOW else BY_DEFAULT
JOBS = {("zero3", 2): NAMES}
"""By mode and workers: the rows that run with them."""

if SLOW:
    # Each row with weights that are cut and with weights that are not, and once more over NCCL's paths and in groups.
    JOBS = {
        **in_turns([("zero3", 2), ("zero3", 3)], NAMES),
        **in_turns([("zero1", 3), ("zero2", 2), ("zero2", 4)], NAMES),
    }

Jobs = dict[tuple[str, int], OutcomeJobs]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> OutcomeJobs:
    return OutcomeJobs(tmp_path_factory.mktemp("alone"), "tests.exactness", NAMES, BOUND)


@pytest.fixture(scope="module")
def sharing(tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    def jobs(mode: str, names: list[str]) -> OutcomeJobs:
        module = "tests.helpers.cut_weights tests.exactness" if mode == "zero3" else "tests.exactness"
        return OutcomeJobs(tmp_path_factory.mktemp(mode), module, names, BOUND, ["--shard", mode])

    return {(mode, workers): jobs(mode, names) for (mode, workers), names in JOBS.items()}


@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(("job", "name"), [(job, name) for job, names in JOBS.items() for name in names], ids=named)
def test_numbers_of_one_device(job: tuple[str, int], name: str, alone: OutcomeJobs, sharing: Jobs) -> None:
    mode, workers = job
    (one,) = alone.outcomes(1, 65)
    for index, worker in enumerate(sharing[job].outcomes(workers, 65)):
        if mode != "zero3" or not is_refused(worker.get(name, {})):
            assert_as_alone(name, one, worker, f"worker {index}: {name}")


def is_refused(outcome: dict[str, Any]) -> bool:
    """Returns whether a worker says of a row that weights cannot be cut there, and gradients can."""
    return "rain with --shard zero2" in outcome.get("raised", "")


@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize("job", JOBS, ids=named)
def test_first_steps_are_checked(job: tuple[str, int], sharing: Jobs) -> None:
    _, workers = job
    sharing[job].outcomes(workers, 65)
    log = sharing[job].logs_of_last(workers, 65)
    assert "checked on its first batch, it is what one device computes" in log
    assert "in parts differed" not in log
    assert SLOW or "not checked on its first batch" not in log


def assert_as_alone(name: str, one: dict[str, Any], worker: dict[str, Any], where: str) -> None:
    """Asserts that a worker has the outcome of one device."""
    assert name in worker, f"{where}: it did not come to it"
    assert "raised" not in worker[name], worker[name]["raised"]
    assert_same_case(name, one[name], worker[name], where)


def run(folder: Path, workers: int, mode: str, *arguments: object, script: str = "sharded.py",
        options: Sequence[str] = ()) -> list[dict[str, Any]]:  # fmt: skip
    """What each worker said; `script` is a file's name, or a module, which is found whatever is installed."""
    files, run_dir = folder / f"files-{workers}", folder / f"run-{workers}-{mode}-{len(arguments)}"
    files.mkdir(exist_ok=True)
    is_file = script.endswith(".py")
    target: list[object] = [SCRIPTS / script if is_file else script]
    if mode == "zero3":
        target = ["-m", "tests.helpers.cut_weights", *target]
    elif not is_file:
        target = ["-m", *target]
    done = tfdist("train", "--nproc", workers, "--shard", mode, "--run-dir", run_dir, "--step-timeout", 60, *options,
                  *UNCHECKED, *target, files, *arguments, timeout=200)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    logs = [(run_dir / "logs" / f"worker-{index}.0.log").read_text() for index in range(workers)]
    return [json.loads(log.strip().splitlines()[-1]) for log in logs]


@pytest.mark.bound(500)
@pytest.mark.parametrize(
    ("mode", "workers"),
    [("zero3", 2), slow("zero2", 2), slow("zero1", 2), slow("zero2", 3), slow("zero3", 3), slow("zero1", 4)],
)
def test_what_is_saved_is_what_one_device_saves(tmp_path: Path, mode: str, workers: int) -> None:
    (one,) = run(tmp_path, 1, "none")
    said = run(tmp_path, workers, mode, tmp_path / "files-1" / "model.keras")
    for each in said:
        assert_same(one["gone on from model.keras"], each.pop("gone on"))
    # Each worker made its part of Adam's two slots, and never the whole; both scalars are everyone's.
    held = [each.pop("held") - 2 for each in said]
    whole = one.pop("held") - 2
    assert sum(held) == whole and max(held) <= whole / workers + 8
    stored, weights = [each.pop("stored") for each in said], one.pop("stored")
    assert sum(stored) == (weights if mode == "zero3" else weights * workers)
    assert max(stored) <= (weights / workers + 4 if mode == "zero3" else weights)
    for index, each in enumerate(said):
        assert_same(one, each, f"worker {index}")
    (again,) = run(tmp_path, 1, "none", tmp_path / f"files-{workers}" / "model.keras", "only")
    assert_same(one["gone on from model.keras"], again["gone on"])


@pytest.mark.slow
@pytest.mark.bound(500)
@pytest.mark.parametrize(("workers", "options"), [(2, ()), (3, ()), (4, ()), (2, ("--communication", "ring"))])
def test_weights_are_whole_wherever_they_are_read(tmp_path: Path, workers: int, options: Sequence[str]) -> None:
    (one,) = run(tmp_path, 1, "none", script="sharded_weights.py")
    said = run(tmp_path, workers, "zero3", script="sharded_weights.py", options=options)
    for index, each in enumerate(said):
        assert_same(one, each, f"worker {index}")


@pytest.mark.slow
@pytest.mark.bound(500)
@pytest.mark.parametrize(("workers", "options"), [(2, ()), (3, ()), (2, ("--communication", "ring"))])
def test_of_frozen_weights_no_gradient_is_summed(tmp_path: Path, workers: int, options: Sequence[str]) -> None:
    which = "all" if SLOW else "some"
    (one,) = run(tmp_path, 1, "none", which, script="tests.workers.frozen_weights")
    said = run(tmp_path, workers, "zero3", which, script="tests.workers.frozen_weights", options=options)
    for index, each in enumerate(said):
        counts = {name: numbers.pop("counts") for name, numbers in each.items()}
        sums = {
            "none": 4,
            "first": 2,
            "between": 3,
            "from the start": 3,
            "low rank": 3,
            "then frozen": 3,
            "then not": 4,
        }
        assert {name: counts[name]["summed"] for name in sums} == sums
        assert not SLOW or counts["all but the first"]["summed"] == 1
        # Behind two frozen layers the backward pass ends at the third, and does not read its weight.
        gathered = {name: count["joined"] for name, count in counts.items()}
        assert gathered["first"] == gathered["none"] - 2 and gathered["between"] == gathered["none"]
        for name, numbers in each.items():
            alone = {part: one[name][part] for part in numbers}
            assert_same(alone, numbers, f"worker {index}: {name}")


def test_what_is_refused_where_weights_are_cut(tmp_path: Path) -> None:
    (said, _) = run(tmp_path, 2, "zero3", script="sharded_weights_refusals.py")
    assert "expects what tape.gradient has returned. Received: another tensor" in said["clipping"]
    assert "kernel is cut between workers" in said["export"] and "tfdist export" in said["export"]
    assert "a gradient of a gradient in a model" in said["gradient of a gradient"]


def test_what_is_refused(tmp_path: Path) -> None:
    done = tfdist("train", "--nproc", 2, "--shard", "zero1", "--run-dir", tmp_path / "run", "--show", "none",
                  SCRIPTS / "sharded_refusals.py", timeout=100)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    log = (tmp_path / "run" / "logs" / "worker-0.0.log").read_text()
    said = json.loads(log.strip().splitlines()[-1])
    assert "cannot cut the optimizer Global" in said["apply"] and "its class overrides apply" in said["apply"]
    assert "belongs to no single variable of the model" in said["shared state"]
    assert "Leave --shard out" in said["pruning"]
    assert "the state of the optimizer 'adam' is cut between workers" in said["checkpoint"]
    assert "Give them to fit on every worker" in said["chief alone"]


@pytest.mark.slow
@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize("mode", ["zero2", "zero3"])
def test_numbers_by_tensorflows_collectives(mode: str, tmp_path: Path) -> None:
    names = [
        "plain",
        "attention_and_layer_normalization",
        "recurrent_layers",
        "shared_layers_and_nested_models",
        "mixed_bfloat16",
        "loss_scaling_with_an_overflow_and_accumulation",
    ]
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    options = ["--shard", mode, "--communication", "ring"]
    module = "tests.helpers.cut_weights tests.exactness" if mode == "zero3" else "tests.exactness"
    (alone,) = OutcomeJobs(one, "tests.exactness", names, BOUND).outcomes(1, 65)
    for index, worker in enumerate(OutcomeJobs(two, module, names, BOUND, options).outcomes(2, 65)):
        for name in names:
            assert name in worker, f"worker {index} did not come to it"
            assert "raised" not in worker[name], worker[name]["raised"]
            assert_same_case(name, alone[name], worker[name], f"worker {index}: {name}")


@pytest.mark.slow
@pytest.mark.bound(500)
def test_sums_of_gradients_taken_out_are_noticed(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir()
    cut.mkdir()
    unsummed = "tests.helpers.cut_weights --unsummed tests.exactness"
    (one,) = OutcomeJobs(whole, "tests.exactness", ["plain"], BOUND).outcomes(1, 65)
    first, _ = OutcomeJobs(cut, unsummed, ["plain"], BOUND, ["--shard", "zero3"]).outcomes(2, 65)
    assert "raised" not in first["plain"], first["plain"]["raised"]
    with pytest.raises(AssertionError, match="Mismatched elements"):
        assert_same_case("plain", one["plain"], first["plain"], "plain")


def check_that_a_killed_run_ends_as_the_one_that_was_not(
    folder: Path, model: Any, mode: str, workers: int, more: Sequence[str] = ()
) -> None:
    """To the bit: both runs are of so many workers in one mode."""
    config, whole, killed = write_config(folder, seed=3, **model), RunDir(folder / "whole"), RunDir(folder / "killed")
    options = ("--nproc", str(workers), "--shard", mode, *more)
    assert train(config, whole, *options).returncode == 0
    last = train_and_kill(config, killed, workers // 2, 30, *options)
    resumed = train(config, killed, *options, "--resume", "must")
    assert resumed.returncode == 0 and f"resumes after step {last}" in resumed.stdout
    same(end_of(whole), end_of(killed))


@pytest.mark.slow
@pytest.mark.bound(600)
@pytest.mark.parametrize("mode", ["zero2", "zero3"])
def test_a_killed_run_of_four_workers_ends_as_the_one_that_was_not(mode: str, tmp_path: Path) -> None:
    # Of 72, 12, 48 and 4 elements: parts are of 1 to 18.
    cut = {"model": {"build": "tests.helpers.resumable_model.model", "args": {"cut": True}}}
    check_that_a_killed_run_ends_as_the_one_that_was_not(tmp_path, cut, mode, 4)


@pytest.mark.slow
@pytest.mark.bound(900)
def test_a_killed_run_with_cut_weights_ends_as_the_one_that_was_not_and_goes_on_in_any_mode(tmp_path: Path) -> None:
    cut = {"build": "tests.helpers.resumable_model.model", "args": {"cut": True}}
    check_that_a_killed_run_ends_as_the_one_that_was_not(tmp_path, {"model": cut}, "zero3", 2)

    plain = write_config(tmp_path, seed=3, model={**cut, "args": {"cut": True, "plain": True}})
    one, moved = RunDir(tmp_path / "one"), RunDir(tmp_path / "moved")
    assert train(plain, one).returncode == 0
    train_and_kill(plain, moved, 0, 20, "--nproc", "2", "--shard", "zero2")
    train_and_kill(plain, moved, 1, last_step(moved) + 10, "--nproc", "3", "--shard", "zero3", "--resume", "must")
    train_and_kill(plain, moved, 1, last_step(moved) + 10, "--nproc", "2", "--shard", "zero3", "--resume", "must")
    assert train(plain, moved, "--resume", "must").returncode == 0
    same_but_for_rounding(end_of(one), end_of(moved))


@pytest.mark.slow
@pytest.mark.bound(900)
def test_a_killed_run_ends_as_the_one_that_was_not_and_goes_on_in_any_mode(tmp_path: Path) -> None:
    check_that_a_killed_run_ends_as_the_one_that_was_not(tmp_path, {}, "zero2", 2)

    plain = write_config(tmp_path, seed=3, model={"build": "tests.helpers.resumable_model.model",
                                                  "args": {"plain": True}})  # fmt: skip
    one, moved = RunDir(tmp_path / "one"), RunDir(tmp_path / "moved")
    assert train(plain, one).returncode == 0
    train_and_kill(plain, moved, 0, 20, "--nproc", "2")
    train_and_kill(plain, moved, 1, last_step(moved) + 10, "--nproc", "3", "--shard", "zero1", "--resume", "must")
    train_and_kill(plain, moved, 1, last_step(moved) + 10, "--nproc", "2", "--shard", "zero2", "--resume", "must")
    assert train(plain, moved, "--resume", "must").returncode == 0
    same_but_for_rounding(end_of(one), end_of(moved))
