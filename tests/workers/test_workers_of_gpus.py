"""Workers for the GPUs of a machine, which are emulated on its CPUs: one for each, or several that share one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.cli_process import tfdist
from tests.helpers.marks import slow
from tests.workers.worker_scripts import BOUND, SCRIPTS, assert_close, said


def train(
    folder: Path, emulated: str, *options: object, code: int = 0, script: tuple[str, ...] = ()
) -> tuple[Any, str]:
    """What the chief of a run says, and what its launcher does."""
    path, *arguments = script or ("uneven_batches.py",)
    done = tfdist(
        *("train", *options, "--run-dir", folder, "--step-timeout", 30, SCRIPTS / path, *arguments),
        timeout=BOUND,
        environ={"TFDIST_EMULATE_GPUS": emulated},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return (None if code else said(folder, 0)), done.stderr


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What one device says."""
    found, _ = train(tmp_path_factory.mktemp("one"), "count=2", "--devices", "0")
    assert found["replicas"] == 1
    return found["numbers"]


@pytest.mark.parametrize(
    ("emulated", "options", "replicas", "line"),
    [
        ("count=2", [], 2, "one worker on each of 2 GPUs; --nproc 1 runs one process on all of them"),
        slow("count=3", ["--devices", "2,0"], 2, "one worker on each of 2 GPUs"),
        slow("count=2", ["--nproc", "1"], 2, "2 replicas on CPUs (MirroredStrategy"),
        slow("count=2", ["--logical-devices", "1"], 2, "one process on 2 GPUs, as it is to split them"),
        ("nccl,count=1", ["--nproc", "2", "--devices", "0", "--share-gpu"], 2, "(MultiWorkerMirroredStrategy, nccl"),
        slow("nccl,count=2", ["--nproc", "3", "--share-gpu"], 3, "(MultiWorkerMirroredStrategy, nccl"),
    ],
)
def test_numbers_of_one_device(
    emulated: str, options: list[str], replicas: int, line: str, one: Any, tmp_path: Path
) -> None:
    found, told = train(tmp_path, emulated, *options)
    assert found["replicas"] == replicas
    assert line in told
    assert_close(one, found["numbers"])


@pytest.mark.slow
def test_workers_that_are_more_than_gpus_are_refused_without_the_flag(tmp_path: Path) -> None:
    _, told = train(tmp_path, "count=1", "--nproc", 2, "--devices", 0, code=2)
    assert "2 workers on this machine need a GPU each. Received: 1 GPU(s)" in told
    assert "let workers share a GPU with --share-gpu" in told


@pytest.mark.slow
def test_what_several_workers_do_not_have_is_in_one_process(tmp_path: Path) -> None:
    _, told = train(tmp_path, "count=2", code=2, script=("own_strategy.py", "MirroredStrategy"))
    assert "The script makes a MirroredStrategy, and this run has 2 workers" in told
    assert "one worker was started for each GPU; --nproc 1 runs one process on all of them" in told
