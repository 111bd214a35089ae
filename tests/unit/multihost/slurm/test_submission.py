from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from tfdist.errors import FormingError, TfdistError, UsageError
from tfdist.multihost.slurm.batch_job import BatchJob
from tfdist.multihost.slurm.submission import submit, submitted_text

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
