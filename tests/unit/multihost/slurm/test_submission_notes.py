from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from tfdist.multihost.slurm import submission_notes as module
from tfdist.multihost.slurm.batch_job import BatchJob
from tfdist.multihost.slurm.submission_notes import submission_notes


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
