""""""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from tfdist.errors import FormingError, TfdistError, UsageError
from tfdist.multihost.slurm import submission as module
from tfdist.multihost.slurm.batch_job import BatchJob
from tfdist.multihost.slurm.submission import step_command, submission_notes, submit, submitted_text, with_cores

JOB = BatchJob("train", ("train.py",), "/work", "/venv/bin/python", nodes=2, gpus_per_node=4, partition="gpu")


def sbatch(folder: Path, does: str) -> dict[str, str]:
    (folder / "sbatch").write_text(f"#!/bin/sh\ncat > {folder}/script\n{does}\n")
    (folder / "sbatch").chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


@pytest.mark.parametrize("out", ["42", "42;cluster", "a notice of the site\\n42"])
def test_the_number_of_the_job(tmp_path: Path, out: str) -> None:
    assert submit(JOB, sbatch(tmp_path, f"printf '{out}\\n'")) == "42"
    assert (tmp_path / "script").read_text().startswith("#!/bin/bash\n")


@pytest.mark.parametrize(
    ("does", "kind", "says"),
    [
        (
            "echo 'sbatch: error: Batch job submission failed: Invalid partition name specified' >&2; exit 1",
            UsageError,
            "Slurm refuses the job: Invalid partition name specified. Received: --nodes 2 --tasks-per-node 1 "
            "--gpus-per-node 4 --partition gpu.",
        ),
        ("exit 1", UsageError, "Slurm refuses the job: without a word"),
        ("echo nonsense", UsageError, "nonsense"),
        (
            "echo 'sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)' "
            ">&2; exit 1",
            FormingError,
            "Slurm cannot be reached: Unable to contact slurm controller",
        ),
    ],
)
def test_what_sbatch_refuses(tmp_path: Path, does: str, kind: type[TfdistError], says: str) -> None:
    with pytest.raises(kind) as refused:
        submit(JOB, sbatch(tmp_path, does))
    assert says in str(refused.value)


def test_where_there_is_no_sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="not on this machine's PATH.*--print"):
        submit(JOB)


def test_what_the_user_is_told() -> None:
    assert submitted_text(JOB, "42") == (
        "submitted job 42: 2 workers on 2 nodes, 4 GPUs a node\n"
        "  run directory  runs/train-42\n"
        "  its log        train-42.out\n"
        "  watch it       squeue --job 42; tfdist status runs/train-42\n"
        "  cancel it      scancel 42, which lets it save first"
    )


@pytest.mark.parametrize(
    ("options", "log"),
    [
        (("--output=logs/%j.out",), "logs/42.out"),
        (("-ologs/%x-%j.out",), "logs/train-42.out"),
        (("--out=a", "--output=logs/%x_%N.out", "--job-name=mine"), "logs/mine_%N.out"),
        (("--array=0-3",), "train-42_TASK.out"),
        (("-a0-3", "--output=%A/%a.%j"), "42/TASK.%j"),
    ],
)
def test_where_the_log_is(options: tuple[str, ...], log: str) -> None:
    said = submitted_text(dataclasses.replace(JOB, options=options), "42")
    assert f"  its log        {log}\n" in said


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BatchJob:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return BatchJob("train", ("train.py",), str(tmp_path), "/venv/bin/python", nodes=2)


def squeue(folder: Path, does: str) -> dict[str, str]:
    (folder / "squeue").write_text(f"#!/bin/sh\n{does}\n")
    (folder / "squeue").chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("echo PENDING PartitionNodeLimit", "PartitionNodeLimit"),
        ("echo 'PENDING ReqNodeNotAvail, UnavailableNodes:n3'", "ReqNodeNotAvail, UnavailableNodes:n3"),
        ("echo PENDING Priority", ""),
        ("echo PENDING Resources", ""),
        ("echo RUNNING None", ""),
        ("exit 1", ""),
        ("true", ""),
    ],
)
def test_what_slurm_holds_back(job: BatchJob, tmp_path: Path, does: str, reason: str) -> None:
    notes = submission_notes(job, "42", squeue(tmp_path, does))
    assert [note.partition("holds it back: ")[2].partition(". ")[0] for note in notes] == ([reason] if reason else [])


def test_a_reason_is_waited_for_that_slurm_has_yet_to_find(
    job: BatchJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.01)
    asked = f"[ -e {tmp_path}/asked ] && echo PENDING PartitionTimeLimit || echo PENDING None; touch {tmp_path}/asked"
    (note,) = submission_notes(job, "42", squeue(tmp_path, asked))
    assert "PartitionTimeLimit" in note
    monkeypatch.setattr(module, "_UNDECIDED_SECONDS", 0.05)
    assert submission_notes(job, "42", squeue(tmp_path, "echo PENDING None")) == []


def test_where_there_is_no_squeue(job: BatchJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert submission_notes(job, "42") == []


@pytest.mark.parametrize(
    ("option", "missing"),
    [("--output=%x.out", None), ("--output=logs/%j.out", "logs"), ("--output=%x/%j", None), ("--output=%N/a", None)],
)
def test_a_log_whose_directory_is_missing(job: BatchJob, tmp_path: Path, option: str, missing: str | None) -> None:
    (tmp_path / "train").mkdir()
    notes = submission_notes(dataclasses.replace(job, options=(option,)), "42", squeue(tmp_path, "true"))
    assert [f"no directory {tmp_path / (missing or '')} here" in note for note in notes] == ([True] if missing else [])


def test_a_step_gets_the_environment_whatever_the_allocation_was_made_with() -> None:
    """--export=NONE there sets SLURM_EXPORT_ENV, and srun would leave the secret behind."""
    command = step_command(arguments=["train.py"], python="/p", nodes=2, tasks_per_node=1, gpus_per_node=None)
    assert command[0] == "srun" and "--export=ALL" in command
    assert command[-5:] == ("/p", "-m", "tfdist", "train", "train.py")


@pytest.mark.parametrize(
    ("argument", "is_bounded"),
    [("--copy-to=s3://a/b", False), ("--min-workers", False), ("--max-restarts=1", True)],
)
def test_the_others_are_waited_for_so_long_unless_they_may_go_on(argument: str, is_bounded: bool) -> None:
    arguments = [argument, "train.py"]
    command = step_command(arguments=arguments, python="/p", nodes=2, tasks_per_node=1, gpus_per_node=None)
    assert ("--wait=210" in command) == is_bounded


@pytest.mark.parametrize(
    ("environ", "cores"),
    [
        ({"SLURM_CPUS_PER_TASK": "8"}, "8"),
        ({"SLURM_CPUS_PER_TASK": "8", "SRUN_CPUS_PER_TASK": "4"}, "4"),
        ({"A": "1"}, None),
    ],
)
def test_a_step_has_the_cores_of_the_allocation(environ: dict[str, str], cores: str | None) -> None:
    made = with_cores(environ)
    assert made.get("SRUN_CPUS_PER_TASK") == cores
    assert made | environ == made
