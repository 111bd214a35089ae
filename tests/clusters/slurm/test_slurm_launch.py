"""`tfdist launch --on slurm` against a real Slurm."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.clusters.slurm.slurm_cluster import REPOSITORY, SlurmCluster
from tests.helpers.waiting import until
from tfdist.rundir import RunDir, WorkerState
from tfdist.rundir.ledger_lines import read_ledger

LAUNCH = (sys.executable, "-m", "tfdist", "launch", "--on", "slurm")
STAND_INS = {"PYTHONPATH": f"{REPOSITORY / 'tests/clusters/ssh/stand_in'}:{REPOSITORY}"}
"""With it, `tfdist train` starts stand-in workers."""
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with a name that a shell would take apart, and a script."""
    folder = tmp_path / "it's a $HOME #1"
    folder.mkdir()
    (folder / "train.py").touch()
    return folder


def launch(slurm: SlurmCluster, folder: Path, *arguments: str) -> str:
    """Launches a job of stand-ins; returns its number."""
    done = slurm.run(*LAUNCH, *arguments, cwd=folder, environ=STAND_INS)
    assert done.returncode == 0, done.stderr
    found = re.match(r"submitted job ([0-9]+): ", done.stdout)
    assert found is not None, done.stdout
    return found[1]


def ended(slurm: SlurmCluster, job: str, timeout: float = 150) -> tuple[str, str, str]:
    until(lambda: slurm.state(job) in OVER, timeout, otherwise=f"job {job} does not end")
    said = slurm.job(job)
    return said["JobState"], said["ExitCode"], said["Restarts"]


def test_a_job_is_submitted_and_runs(slurm: SlurmCluster, folder: Path) -> None:
    args = ["*:gpus", "0:environ:TFDIST_TOKEN", "0:print:it's $HOME"]
    layout = ["-N2", "--tasks-per-node=2", "--gpus-per-node=2", "--sbatch", "--comment='a b' --mem=100M"]
    job = launch(slurm, folder, *layout, "--show=all", "train.py", *args)
    assert ended(slurm, job) == ("COMPLETED", "0:0", "0")
    log = (folder / f"train-{job}.out").read_text()
    assert sorted(line for line in log.splitlines() if " sees " in line) == [
        f"worker {index} sees 0,1, shared" for index in range(4)
    ]
    # The token is the launchers' and not the workers', and what stands on the command line reaches them as it is.
    assert "TFDIST_TOKEN=None\n" in log and "it's $HOME\n" in log
    assert len(list((folder / "runs" / f"train-{job}" / "logs").iterdir())) == 4


def test_launchers_of_a_job_have_a_secret_that_no_script_has(slurm: SlurmCluster, folder: Path) -> None:
    job = launch(slurm, folder, "-N2", "train.py", f"0:touch:{folder}/ready", f"*:await:{folder}/go")
    until((folder / "ready").exists)
    script = slurm.run("scontrol", "write", "batch_script", job, "-").stdout
    tokens = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, environ = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        except OSError:
            continue
        if b"tfdist\0train" in command and f"SLURM_JOB_ID={job}".encode() in environ.split(b"\0"):
            tokens |= {entry for entry in environ.split(b"\0") if entry.startswith(b"TFDIST_TOKEN=")}
            assert b"TFDIST_TOKEN" not in command
    (folder / "go").touch()
    assert ended(slurm, job)[0] == "COMPLETED"
    (token,) = tokens
    assert re.fullmatch(r"TFDIST_TOKEN=[0-9a-f]{64}", token.decode())
    assert token.decode().partition("=")[2] not in script and "TFDIST_TOKEN" in script


def test_jobs_of_an_array_have_run_directories_of_their_own(slurm: SlurmCluster, folder: Path) -> None:
    """They run at once on the same nodes, with ports of their own."""
    job = launch(slurm, folder, "-N2", "--sbatch=--array=0-1", "--run-dir=runs/a", "train.py", "*:listen")
    logs = [folder / f"train-{job}_{task}.out" for task in (0, 1)]
    until(lambda: all(log.exists() and "tfdist: done in" in log.read_text() for log in logs), otherwise="not both")
    assert sorted(run.name for run in (folder / "runs").iterdir()) == ["a-0", "a-1"]


@pytest.mark.bound(120)
def test_a_job_whose_time_is_nearly_over_saves_and_comes_back(slurm: SlurmCluster, folder: Path) -> None:
    """Slurm's signal to the script: the workers stop at a step, and the job goes on in the same run directory."""
    job = launch(slurm, folder, "-N2", "train.py", f"0@0:touch:{folder}/ready", "*@0:train:0.1")
    until((folder / "ready").exists)
    assert slurm.run("scancel", "--batch", "--signal=USR1", job).returncode == 0
    slurm.start_again(job)
    assert ended(slurm, job) == ("COMPLETED", "0:0", "1")
    logs = {log.name for log in (folder / "runs" / f"train-{job}" / "logs").iterdir()}
    assert logs == {f"worker-{index}.{attempt}.log" for index in (0, 1) for attempt in (0, 1)}


@pytest.mark.slow
@pytest.mark.bound(240)
def test_an_elastic_job_that_loses_a_node_is_requeued(slurm: SlurmCluster, folder: Path) -> None:
    """The workers on the others go on until Slurm takes the node for down; the next start goes on in the same run."""
    marks = [folder / "trains", folder / "trains-again"]
    acts = [f"0@{attempt}:touch:{mark}" for attempt, mark in enumerate(marks)]
    trains = ["*@0:train:0.1", "*@1:train:0.1"]
    job = launch(slurm, folder, "-N3", "--min-workers=2", "--rejoin-timeout=1", "train.py", *acts, *trains)
    until(marks[0].exists)
    try:
        slurm.nodes[2].kill()
        until(marks[1].exists, otherwise="the others do not go on")
        until(lambda: slurm.job(job)["Restarts"] == "1", 90, otherwise="it was not requeued")
    finally:
        slurm.start_node(3)
    slurm.start_again(job)
    assert ended(slurm, job, 90) == ("COMPLETED", "0:0", "1"), (folder / f"train-{job}.out").read_text()


def test_a_job_that_is_cancelled_stays_ended(slurm: SlurmCluster, folder: Path) -> None:
    job = launch(slurm, folder, "-N2", "train.py", f"0:touch:{folder}/ready", "*:train:0.1")
    until((folder / "ready").exists)
    assert slurm.run("scancel", job).returncode == 0
    assert ended(slurm, job) == ("CANCELLED", "143:0", "0")
    log = folder / f"train-{job}.out"
    until(lambda: log.read_text().count("Exited with exit code 143") == 2)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--partition=nope"], 2, "Slurm refuses the job: invalid partition specified: nope"),
        (["--gpus-per-node=8"], 2, "Requested node configuration is not available. Received: --nodes 1"),
        (["--sbatch=--bogus"], 2, "unrecognized option '--bogus'. Received"),
        (["--time=x"], 2, "Invalid --time specification"),
    ],
)
def test_what_slurm_refuses_is_one_line(
    slurm: SlurmCluster, folder: Path, arguments: list[str], code: int, says: str
) -> None:
    done = slurm.run(*LAUNCH, *arguments, "train.py", cwd=folder)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.count("\n") == 1 and says in done.stderr, done.stderr
    assert slurm.run("squeue", "-h").stdout == ""


def test_a_job_that_slurm_takes_and_never_starts_is_no_surprise(slurm: SlurmCluster, folder: Path) -> None:
    done = slurm.run(*LAUNCH, "-N9", "--sbatch=--output=logs/a.out", "train.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    notes = [line for line in done.stdout.splitlines() if line.startswith("  note ")]
    assert [f"no directory {folder}/logs here" in notes[0], "back: Partition" in notes[1]] == [True, True]


def test_a_slurm_that_does_not_answer_is_one_line(slurm: SlurmCluster, folder: Path) -> None:
    (folder / "slurm.conf").write_text((slurm.folder / "slurm.conf").read_text().replace("munge.socket", "gone.socket"))
    done = slurm.run(*LAUNCH, "train.py", cwd=folder, environ={"SLURM_CONF": str(folder / "slurm.conf")})
    assert done.returncode == 3 and done.stderr.startswith("error: Slurm cannot be reached: "), done.stderr


def test_in_an_allocation_it_trains_at_once(slurm: SlurmCluster, folder: Path) -> None:
    """By as many tasks as are asked for, whatever the allocation has."""
    inside = ["salloc", "-N2", "-n8", "--gpus-per-node=2", *LAUNCH, "--tasks-per-node=2", "--show=all", "train.py"]
    done = slurm.run(*inside, "*:gpus", "*:exit:7", cwd=folder, environ=STAND_INS)
    assert done.stdout.count("sees 0,1, shared") == 4, done.stderr
    assert "in the allocation of job " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["--time=1:00:00"], "Received: --time. Leave it out"), (["-N3"], "has 2 node(s).")],
)
def test_what_an_allocation_does_not_take(slurm: SlurmCluster, folder: Path, arguments: list[str], says: str) -> None:
    done = slurm.run("salloc", "-N2", *LAUNCH, *arguments, "train.py", cwd=folder)
    assert done.returncode == 2 and says in done.stderr, done.stderr


@pytest.mark.slow
@pytest.mark.bound(280)
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_training_that_is_preempted_goes_on_where_it_was(slurm: SlurmCluster, tmp_path: Path, nodes: int) -> None:
    config = REPOSITORY / "configs" / "digits.yaml"
    options = [f"-N{nodes}", "--set=fit.epochs=20", "--set=checkpoint.every_steps=1000"]
    done = slurm.run(*LAUNCH, *options, str(config), cwd=tmp_path)
    job = re.findall("[0-9]+", done.stdout)[0]
    run = RunDir(tmp_path / "runs" / f"digits-{job}")

    def has_trained() -> bool:
        state = WorkerState.read(run.state_file(0))
        return state is not None and state.step > 20

    until(has_trained, 120, otherwise="it does not train")
    # A job of a partition that may take the nodes of others.
    assert slurm.run("srun", "--partition=high", "--nodes=3", "--exclusive", "true", timeout=60).returncode == 0
    slurm.start_again(job)
    assert ended(slurm, job, 120) == ("COMPLETED", "0:0", "1"), (tmp_path / f"digits-{job}.out").read_text()
    (resume,) = map(json.loads, run.resumes_file.read_text().splitlines())
    # At the very step that it was stopped at.
    stopped = next(entry for entry in read_ledger(run.ledger_file).entries if getattr(entry, "code", None) == 143)
    assert resume["total"] == stopped.step and len(json.loads(run.history_file.read_text())["loss"]) == 20


@pytest.mark.slow
@pytest.mark.bound(300)
def test_a_job_whose_launcher_on_a_node_is_killed_ends_with_one_error_that_names_it(
    slurm: SlurmCluster, folder: Path
) -> None:
    job = launch(slurm, folder, "-N2", "--grace=2", "train.py", f"0:touch:{folder}/ready", "*:train:0.1")
    until((folder / "ready").exists)
    for pid in slurm.nodes[1].processes():
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"tfdist" in command and b"train" in command:
                os.kill(pid, signal.SIGKILL)
    assert ended(slurm, job, 200)[0] != "COMPLETED"
    log = (folder / f"train-{job}.out").read_text()
    (error,) = [line for line in log.splitlines() if line.startswith("error: ")]
    assert "worker 1 (n2" in error
