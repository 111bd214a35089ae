from __future__ import annotations

import dataclasses
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.helpers.marks import slow
from tfdist.errors import UsageError
from tfdist.multihost.slurm.batch_job import BatchJob, batch_script, job_name, limit_seconds

JOB = BatchJob("train", ("--grace=5.0", "train.py", "it's $HOME"), "/work", "/venv/bin/python", nodes=2)


def lines_of(job: BatchJob) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in batch_script(job).splitlines() if line.startswith("#SBATCH")]


def test_what_slurm_is_asked_for() -> None:
    job = dataclasses.replace(
        JOB, tasks_per_node=2, gpus_per_node=4, time="1:00:00", partition="gpu", options=("--mem=1G", "--gpus=9")
    )
    assert lines_of(job) == [
        "--job-name=train",
        "--output=train-%j.out",
        "--mem=1G",
        "--gpus=9",
        "--partition=gpu",
        "--time=1:00:00",
        "--gpus-per-node=4",
        "--chdir=/work",
        "--nodes=2",
        "--ntasks-per-node=2",
        "--requeue",
        "--open-mode=append",
        "--signal=B:USR1@60",
    ]


def run(tmp_path: Path, job: BatchJob, srun: str = 'printf "%s\\n" "$@"', **variables: str) -> list[str]:
    """What srun is called with by the job's script, or what comes of the one that is given."""
    for name, does in {"srun": srun, "scontrol": 'echo "scontrol $*"', "scancel": 'echo "scancel $*"'}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{does}\n")
        (tmp_path / name).chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "7", "HOME": "/h", **variables}
    done = subprocess.run(["bash"], input=batch_script(job), capture_output=True, text=True, env=environ, timeout=150)
    assert done.stderr == ""
    return [*done.stdout.splitlines(), f"exit {done.returncode}"]


@pytest.mark.parametrize(
    ("run_dir", "variables", "expected"),
    [
        (None, {}, "runs/train-7"),
        (None, {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "3"}, "runs/train-5_3"),
        ("/a b/it's", {}, "/a b/it's"),
        ("/a b/it's", {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "3"}, "/a b/it's-3"),
    ],
)
def test_every_start_of_a_job_has_the_same_run_directory(
    tmp_path: Path, run_dir: str | None, variables: dict[str, str], expected: str
) -> None:
    said = run(tmp_path, dataclasses.replace(JOB, run_dir=run_dir), **variables)
    layout = ["--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--distribution=block", "--wait=210"]
    command = ["/venv/bin/python", "-m", "tfdist", "train", f"--run-dir={expected}", "--resume=auto"]
    assert said == [*layout, *command, "--grace=5.0", "train.py", "it's $HOME", "exit 0"]


def test_a_secret_is_made_in_the_job_unless_there_is_one(tmp_path: Path) -> None:
    first, second = (run(tmp_path, JOB, 'echo "$TFDIST_TOKEN"')[0] for _ in range(2))
    assert len(first) == len(second) == 64 and first != second
    assert run(tmp_path, JOB, 'echo "$TFDIST_TOKEN"', TFDIST_TOKEN="mine")[0] == "mine"


def test_a_step_gets_the_environment_after_export_none(tmp_path: Path) -> None:
    """sbatch --export=NONE tells srun to pass nothing on, the secret neither."""
    assert run(tmp_path, JOB, "echo $SLURM_EXPORT_ENV", SLURM_EXPORT_ENV="NONE")[0] == "ALL"


def test_a_step_has_the_cores_of_the_job(tmp_path: Path) -> None:
    assert run(tmp_path, JOB, "echo $SRUN_CPUS_PER_TASK", SLURM_CPUS_PER_TASK="8")[0] == "8"


@pytest.mark.parametrize(
    ("srun", "says"),
    [
        # Its time is nearly over: the step is asked to stop, and the job comes back.
        ("kill -USR1 $PPID; sleep 0.3; exit 143", ["scancel --signal=TERM 7", "scontrol requeue 7", "exit 143"]),
        ("kill -USR1 $PPID; sleep 0.3; exit 4", ["scancel --signal=TERM 7", "exit 4"]),
        ("kill -USR1 $PPID; sleep 0.3; exit 0", ["scancel --signal=TERM 7", "exit 0"]),
        # Cancelled: the script waits for the step, which Slurm asks to stop.
        ("kill -TERM $PPID; sleep 0.3; exit 143", ["exit 143"]),
        slow("kill -TERM $PPID; sleep 0.3; kill -TERM $PPID; sleep 0.3; exit 143", ["exit 143"]),
        ("exit 7", ["exit 7"]),
    ],
)
def test_how_a_job_ends(tmp_path: Path, srun: str, says: list[str]) -> None:
    assert run(tmp_path, JOB, srun) == says


@pytest.mark.parametrize(("is_new", "code"), [(True, 4), (False, 0)])
def test_an_srun_that_does_not_end_after_the_run_has_failed_is_ended(tmp_path: Path, is_new: bool, code: int) -> None:
    failure = tmp_path / "failure.json"
    failure.write_text("of the start before")
    does = f"echo new > new; mv new {failure}; exec sleep 20" if is_new else "sleep 1"
    (tmp_path / "srun").write_text(f"#!/bin/bash\ncd {tmp_path}; {does}\n")
    (tmp_path / "srun").chmod(0o755)
    script = batch_script(dataclasses.replace(JOB, run_dir=str(tmp_path)))
    for long, short in (("sleep 270", "sleep 0.2"), ("sleep 5", "sleep 0.1")):
        assert long in script
        script = script.replace(long, short)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "7"}
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True, env=environ, timeout=8)
    assert done.returncode == code
    assert ("srun did not end for 270 s" in done.stderr) == is_new


def test_words_of_a_line_are_quoted() -> None:
    job = dataclasses.replace(JOB, cwd="/a b/#1", options=("--comment=it's",))
    assert "'--chdir=/a b/#1'" in lines_of(job) and shlex.quote("--comment=it's") in lines_of(job)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"options": ("--mem=1G", "physics")}, "each as one word"),
        ({"options": ("--mem=1G", ":", "--mem=2G")}, "heterogeneous job"),
        ({"options": ("--mem=1G", "--nodes=9")}, "--nodes itself.*Expected --nodes N. Received: --sbatch --nodes=9"),
        ({"options": ("-N9",)}, "Expected --nodes N. Received: --sbatch -N9"),
        ({"options": ("-HN9",)}, "Expected --nodes N"),
        ({"options": ("--ntasks=4",)}, "Expected --nodes N and --tasks-per-node N"),
        ({"options": ("-n4",)}, "Expected --nodes N and --tasks-per-node N"),
        ({"options": ("--ntasks-per-node=4",)}, "Expected --tasks-per-node N"),
        ({"options": ("--gpus-per-node=4",)}, "Expected --gpus-per-node N"),
        ({"options": ("--time=00:01:00",)}, "Expected --time LIMIT"),
        ({"options": ("-t1",)}, "Expected --time LIMIT"),
        ({"options": ("--part=gpu",)}, "--partition itself.*Expected --partition NAME"),
        ({"options": ("--chdir=/x",)}, "call tfdist in that folder"),
        ({"options": ("-D/x",)}, "call tfdist in that folder"),
        ({"options": ("--signal=USR2",)}, "Expected --grace S"),
        ({"options": ("--distribution=cyclic",)}, "in blocks"),
        ({"options": ("--requeue",)}, "--max-requeues N"),
        ({"options": ("--no-requeue",)}, "--max-requeues N"),
        ({"options": ("--no-kill",)}, "without the first node it would stand still"),
        ({"options": ("-k",)}, "without the first node it would stand still"),
        ({"options": ("--open-mode=truncate",)}, "the log is appended to"),
        ({"cwd": "/a\nb"}, "ends where a line does"),
        ({"run_dir": ""}, "--run-dir is empty"),
        ({"gpus_per_node": 1, "tasks_per_node": 2}, "Expected --gpus-per-node of at least 2"),
        ({"time": "2"}, "Expected more than 120 s"),
        ({"time": "00:01:59", "grace": 30.0}, "--grace 30 and 30 s"),
    ],
)
def test_jobs_that_cannot_be(changes: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        dataclasses.replace(JOB, **changes)  # type: ignore[arg-type]


def test_options_that_are_not_the_scripts_are_passed_on() -> None:
    given = ("--gpus=2", "--time-min=10", "--nodelist=n1", "-x", "-Jother", "--export=NONE", "-sQ")
    lines = lines_of(dataclasses.replace(JOB, options=given))
    assert [line for line in lines if line in given] == list(given)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("90:30", 5430),
        ("1:30:00", 5400),
        ("2-12", 216_000),
        ("2-12:30", 217_800),
        ("2-12:30:01", 217_801),
        ("0", None),
        ("UNLIMITED", None),
        ("x", None),
    ],
)
def test_time_limits(text: str, seconds: int | None) -> None:
    assert limit_seconds(text) == seconds


@pytest.mark.parametrize(("text", "name"), [("train", "train"), ("my run/%j", "my-run-j"), ("...", "run")])
def test_names_of_jobs(text: str, name: str) -> None:
    assert job_name(text) == name
