from __future__ import annotations

from pathlib import Path

import pytest

from tests.exactness.cases import CASES
from tools.gpu_round.machine_options import Machine
from tools.gpu_round.round_parts import REHEARSED, RoundSize, alone, chosen_rows, together
from tools.gpu_round.row_jobs import ROW_JOBS


def test_every_row_is_one_of_the_table_and_one_device_runs_it() -> None:
    for size in (RoundSize(), REHEARSED):
        rows = {job.name: set(chosen_rows(job, size)) for job in ROW_JOBS}
        for job in ROW_JOBS:
            assert rows[job.name] <= CASES.keys()
            assert rows[job.name] <= rows[job.reference]
            reference = next(other for other in ROW_JOBS if other.name == job.reference)
            evaluated = chosen_rows(job, size)[: job.whole]
            assert chosen_rows(reference, size)[: reference.whole][: len(evaluated)] == evaluated


@pytest.mark.parametrize(
    ("gpus", "workers", "replicas"),
    [
        (0, "--nproc 2", "--nproc 1 --logical-devices 2"),
        (1, "--nproc 2 --devices 0 --share-gpu --memory-limit 2500", "--nproc 1 --devices 0 --logical-devices 2"),
        (2, "--nproc 2 --devices 0,1 --memory-limit 2500", "--nproc 1 --devices 0 --logical-devices 2"),
    ],
)
def test_jobs_take_the_gpus_that_there_are(gpus: int, workers: str, replicas: str, tmp_path: Path) -> None:
    parts = {part.name: part for part in (*together(Machine(gpus), RoundSize()), *alone(Machine(gpus), RoundSize()))}
    commands = {name: " ".join(part.command(tmp_path)) for name, part in parts.items()}
    assert f"--run-dir {tmp_path}/run {workers} --shard zero3 --jit auto" in commands["zero3"]
    assert f" {replicas} " in commands["replicas-on"] and " --jit on " in commands["replicas-on"]
    assert ("--devices 0 --jit off" in commands["one-off"]) == (gpus > 0)
    assert f"-m tools.gpu_round.exact_rows {tmp_path}/rows 225 3 plain " in commands["workers-auto"]
    assert "tfdist" not in commands["plain-auto"].split() and bool(parts["plain-auto"].absent) == (gpus == 0)
    assert "--memory-limit" not in commands["collectives"] and commands["collectives"].endswith(" 100")
    assert len(parts) == len(commands) == len(together(Machine(0), REHEARSED)) + len(alone(Machine(0), REHEARSED))
