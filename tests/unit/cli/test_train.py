from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tfdist.cli.main import main
from tfdist.cli.train import train
from tfdist.cluster import interfaces
from tfdist.config import load_config
from tfdist.launch import job as job_module
from tfdist.launch import rehearsed_job
from tfdist.launch.agent.launcher_effects import LauncherEffects
from tfdist.launch.elastic import elastic_job
from tfdist.launch.elastic.elastic_options import ElasticOptions
from tfdist.launch.job import JobSpec
from tfdist.launch.run_result import RunResult
from tfdist.rundir import RunDir, create_run_dir
from tfdist.rundir.state_records import completion_text, note_completion

PODS = ("KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX", "TFDIST_WORKERS")
CONFIG = """\
name: digits
seed: 7
model: {build: tfdist.models.mlp}
compile: {optimizer: adam, loss: mse}
data: {batch_size: 128, train: {format: npz, path: digits.npz, split: train}}
devices: {logical: 2, memory_limit: 512}
"""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TF_CONFIG", "SLURM_JOB_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", *PODS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    (tmp_path / "digits.yaml").write_text(CONFIG)


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[JobSpec]:
    """The jobs that would have been run; each exits with 7."""
    started: list[JobSpec] = []

    def run(spec: JobSpec) -> int:
        started.append(spec)
        return 7

    monkeypatch.setattr(job_module, "run_job", run)
    return started


def run(arguments: str) -> Result:
    return CliRunner().invoke(main, ["train", *arguments.split()])


def test_the_flags_are_a_contract() -> None:
    """Scripts of other people depend on every name."""
    options = [param for param in train.params if isinstance(param, click.Option)]
    assert {name for option in options for name in option.opts} == {
        "-m",
        "--workers",
        "--index",
        "--nproc",
        "--devices",
        "--logical-devices",
        "--memory-limit",
        "--share-gpu",
        "--batch-norm",
        "--communication",
        "--compression",
        "--jit",
        "--check",
        "--kernels",
        "--shard",
        "--shard-over",
        "--shard-embeddings",
        "--tensor",
        "--context",
        "--offload",
        "--strict",
        "--run-dir",
        "--overwrite",
        "--fast-dev-run",
        "--no-save",
        "--set",
        "--start-timeout",
        "--first-step-timeout",
        "--step-timeout",
        "--grace",
        "--max-restarts",
        "--max-requeues",
        "--min-workers",
        "--rejoin-timeout",
        "--grow",
        "--resume",
        "--copy-to",
        "--checkpoint-every",
        "--network",
        "--show",
        "--log-prefix",
        "--debug-worker",
        "--verbose",
        "--quiet",
        "--progress",
        "--log-format",
        "--metrics-port",
        "--metrics-address",
    }


def test_the_defaults_are_a_contract(jobs: list[JobSpec]) -> None:
    run("train.py")
    [job] = jobs
    assert job == JobSpec(
        membership=job.membership,
        target_kind="script",
        target="train.py",
        args=(),
        name="train",
        saves_results=True,
        run_dir=None,
        overwrite=False,
        seed=None,
        config=None,
        devices=None,
        logical_devices=None,
        memory_limit=None,
        batch_norm="synchronized",
        communication="auto",
        jit="auto",
        strict=False,
        check="auto",
        kernels="auto",
        start_timeout=120.0,
        step_timeout=600.0,
        show="chief",
        log_prefix=False,
        verbose=False,
        quiet=False,
        progress="auto",
        debug_worker=0,  # one worker alone has the standard input
    )


@pytest.mark.parametrize(("every", "saved"), [("500", (500, None)), ("2.5m", (None, 2.5))])
def test_how_often_a_run_saves(every: str, saved: tuple[int | None, float | None], jobs: list[JobSpec]) -> None:
    run(f"digits.yaml --checkpoint-every {every}")
    run(f"--checkpoint-every {every} train.py")
    of_config, of_script = jobs
    assert of_config.config is not None
    checkpoint = of_config.config.checkpoint
    assert (checkpoint.every_steps, checkpoint.every_minutes) == saved
    assert of_script.checkpoint_every == every


@pytest.mark.parametrize(
    ("options", "worker", "timeouts"),
    [("--nproc 2", None, (600, 1800)), ("--nproc 2 --debug-worker 1", 1, (604800, 604800)),
     ("--debug-worker 0 --step-timeout 9", 0, (9, 604800))],
)  # fmt: skip
def test_which_worker_is_debugged(
    options: str, worker: int | None, timeouts: tuple[float, float], jobs: list[JobSpec]
) -> None:
    run(f"{options} train.py")
    [job] = jobs
    assert (job.debug_worker, (job.step_timeout, job.first_step_timeout)) == (worker, timeouts)


def test_pods_wait_longer_for_one_another(jobs: list[JobSpec], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFDIST_WORKERS", "digits-{0-3}.digits:20000")
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "2")
    run("train.py")
    run("--start-timeout 60 train.py")
    assert [job.start_timeout for job in jobs] == [900.0, 60.0]
    assert [(job.membership.num_workers, job.membership.local) for job in jobs] == [(4, (2,))] * 2


def test_a_script_with_its_arguments(jobs: list[JobSpec], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFDIST_EMULATE_GPUS", "count=3")
    result = run("--nproc 2 --devices 0,2 --run-dir out --show all train.py --epochs 3 --nproc 9")
    assert result.exit_code == 7, result.output  # the job's own
    [job] = jobs
    assert (job.target_kind, job.target, job.args) == ("script", "train.py", ("--epochs", "3", "--nproc", "9"))
    assert (job.name, job.seed, job.run_dir) == ("train", None, "out")
    assert (job.devices, job.show, job.overwrite, job.verbose) == ((0, 2), "all", False, False)
    assert job.membership.num_workers == 2


def test_a_module_with_its_arguments(jobs: list[JobSpec]) -> None:
    assert run("-m package.module --epochs 3").exit_code == 7
    [job] = jobs
    assert (job.target_kind, job.target, job.args) == ("module", "package.module", ("--epochs", "3"))
    assert job.membership.num_workers == 1


def test_a_config_says_what_the_options_do_not(jobs: list[JobSpec]) -> None:
    assert run("digits.yaml").exit_code == 7
    [job] = jobs
    assert (job.target_kind, job.target, job.args, job.name, job.seed) == ("config", "digits.yaml", (), "digits", 7)
    assert (job.logical_devices, job.memory_limit) == (2, 512)
    assert job.config == load_config("digits.yaml")


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [
        ("train.py", "synchronized"),
        ("--batch-norm replica train.py", "replica"),
        ("digits.yaml", "synchronized"),
        ("digits.yaml --set batch_norm=replica", "replica"),
        ("digits.yaml --batch-norm replica", "replica"),
        ("digits.yaml --set batch_norm=replica --batch-norm synchronized", "synchronized"),
    ],
)
def test_whose_statistics_are_normalized_by(arguments: str, chosen: str, jobs: list[JobSpec]) -> None:
    """A config has what was chosen, whichever way, as it is written into the run directory."""
    run(arguments)
    [job] = jobs
    assert job.batch_norm == chosen
    assert job.config is None or job.config.batch_norm == chosen


@pytest.mark.parametrize(
    ("arguments", "jit", "jit_compile"),
    [
        ("train.py", "auto", None),
        ("--jit on train.py", "on", None),
        ("--jit off train.py", "off", None),
        ("digits.yaml", "auto", "auto"),
        ("digits.yaml --jit on", "auto", True),
        ("digits.yaml --set compile.jit_compile=true --jit off", "auto", False),
        ("digits.yaml --set compile.jit_compile=true --jit auto", "auto", "auto"),
    ],
)
def test_what_xla_compiles(arguments: str, jit: str, jit_compile: bool | str | None, jobs: list[JobSpec]) -> None:
    """A config says it by a key that it has for that, so that the one in the run directory says what was run."""
    run(arguments)
    [job] = jobs
    assert job.jit == jit
    assert job.config is None or job.config.compile.jit_compile == jit_compile


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [
        ("train.py", "auto"),
        ("--kernels onednn train.py", "onednn"),
        ("digits.yaml", "auto"),
        ("digits.yaml --set kernels=tensorflow", "tensorflow"),
        ("digits.yaml --set kernels=tensorflow --kernels onednn --batch-norm replica", "onednn"),
    ],
)
def test_by_which_kernels_workers_compute(arguments: str, chosen: str, jobs: list[JobSpec]) -> None:
    run(arguments)
    [job] = jobs
    assert job.kernels == chosen
    assert job.config is None or job.config.kernels == chosen


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [
        ("train.py", "none"),
        ("--nproc 2 --shard zero2 train.py", "zero2"),
        ("--nproc 2 --shard zero3 train.py", "zero3"),
        ("digits.yaml", "none"),
        ("digits.yaml --set devices.logical=1 --set shard=zero1", "zero1"),
        ("digits.yaml --set devices.logical=1 --set shard=zero1 --shard none", "none"),
    ],
)
def test_what_workers_hold_a_part_of(arguments: str, chosen: str, jobs: list[JobSpec]) -> None:
    run(arguments)
    [job] = jobs
    assert job.shard == chosen
    assert job.config is None or job.config.shard == chosen


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        ("train.py", None),
        ("--nproc 2 --shard-embeddings 1e6 train.py", 1000000),
        ("digits.yaml --set devices.logical=1 --set shard_embeddings=7", 7),
        ("digits.yaml --set devices.logical=1 --set shard_embeddings=7 --shard-embeddings 1_000", 1000),
    ],
)
def test_embeddings_of_which_workers_have_some_rows(arguments: str, rows: int | None, jobs: list[JobSpec]) -> None:
    run(arguments)
    [job] = jobs
    assert job.shard_embeddings == rows
    assert job.config is None or job.config.shard_embeddings == rows


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [
        ("--nproc 2 train.py", 1),
        ("--nproc 2 --tensor 2 train.py", 2),
        ("digits.yaml --set devices.logical=1 --set tensor=2", 2),
        ("digits.yaml --set devices.logical=1 --set tensor=2 --tensor 1", 1),
    ],
)
def test_workers_that_share_each_weight(arguments: str, chosen: int, jobs: list[JobSpec]) -> None:
    run(arguments)
    [job] = jobs
    assert job.tensor == chosen
    assert job.config is None or job.config.tensor == chosen


def test_options_after_a_config_count_before_it(jobs: list[JobSpec]) -> None:
    run("digits.yaml --set seed=8 --set name=other --logical-devices 3 --overwrite --step-timeout 5 --verbose")
    [job] = jobs
    assert (job.name, job.seed, job.logical_devices, job.memory_limit) == ("other", 8, 3, 512)
    assert job.config == load_config("digits.yaml", ["seed=8", "name=other"])
    assert (job.overwrite, job.step_timeout) == (True, 5.0)


def test_the_default_config(jobs: list[JobSpec]) -> None:
    Path("digits.yaml").rename("tfdist.yaml")
    assert run("--nproc 2 --logical-devices 1").exit_code == 7
    assert jobs[0].target == "tfdist.yaml"


@pytest.mark.parametrize("network", ["host", "private"])
def test_a_public_address_is_warned_of_once(jobs: list[JobSpec], monkeypatch: pytest.MonkeyPatch, network: str) -> None:
    monkeypatch.setattr(interfaces, "own_addresses", lambda: ("127.0.0.1", "8.8.8.8"))
    result = run(f"--nproc 2 --network {network} train.py")
    assert result.exit_code == 7
    assert jobs[0].network == network
    expected = {"host": 1, "private": 0}[network]
    assert result.stderr.count("warning: this machine has a public address (8.8.8.8)") == expected
    assert result.stderr.count("\n") == expected
    assert "warning" not in run("train.py").stderr  # one worker has no port


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "error: There is nothing to train"),
        ("absent.yaml", "error: There is no config file"),
        ("absent.py", "error: The script absent.py cannot be read"),
        ("digits.yaml --set data.bach_size=3", "did you mean data.batch_size?"),
        ("--set fit.epochs=3 train.py", "error: --set overrides an entry of a config, and train.py is none."),
        ("--index 0 train.py", "error: --index picks an entry of --workers"),
        ("--nproc 0 train.py", "--nproc"),
        ("--workers a train.py", "error: "),
        ("--devices 0,x train.py", "expected numbers of GPUs from 0, such as 0,1. Received: '0,x'"),
        ("--devices 1,1 train.py", "expected every GPU once. Received: '1,1'"),
        ("--start-timeout 0 train.py", "expected a number of seconds above 0. Received: 0"),
        ("--step-timeout inf train.py", "expected a number of seconds above 0. Received: inf"),
        ("--step-timeout nan train.py", "expected a number of seconds above 0. Received: nan"),
        ("--run-dir= train.py", "error: --run-dir is empty."),
        ("--shard zero1 --shard-over node train.py", "or a number of workers from 2. Received: node"),
        ("--shard zero1 --shard-over 1 train.py", "or a number of workers from 2. Received: 1"),
        ("--shard zero4 train.py", "'zero4' is not one of 'none', 'zero1', 'zero2', 'zero3'"),
        ("--shard zero1 --logical-devices 3 train.py", "Received: --shard zero1 with --logical-devices 3"),
        ("--shard zero1 digits.yaml", "gives a GPU to each. Received: --shard zero1 with --logical-devices 2"),
        ("--tensor 0 train.py", "0 is not in the range x>=1"),
        ("--tensor 2 digits.yaml", "Received: --tensor 2 with --logical-devices 2"),
        ("--context 2 digits.yaml", "Received: --context 2 with --logical-devices 2"),
        ("--tensor 2 --context 2 train.py", "Expected one of them. Received: --tensor 2 and --context 2"),
        ("--shard-embeddings 0 train.py", "expected a number of rows of 1 or more, such as 1e6. Received: 0"),
        ("--shard-embeddings 1.5 train.py", "Received: 1.5"),
        ("--shard-embeddings many train.py", "'many' is not a valid float"),
        ("--shard-embeddings 9 --logical-devices 2 train.py", "--shard-embeddings 9 with --logical-devices 2"),
        ("--show some train.py", "'some' is not one of 'chief', 'all', 'none'"),
        ("--frobnicate train.py", "No such option"),
        ("--devices 0,1 train.py", "--devices names GPU 0, and this machine has 0 GPU(s)"),
        ("--nproc 2 --logical-devices 2 train.py", "--logical-devices splits the CPU for one worker alone"),
        ("--nproc 2 digits.yaml", "Received: --logical-devices 2 with 2 workers"),
        ("--nproc 2 --debug-worker 2 train.py", "a worker of the job, 0 to 1. Received: --debug-worker 2"),
        ("--checkpoint-every 2h train.py", "such as 500, or minutes, such as 2.5m. Received: 2h"),
        ("--checkpoint-every 0 digits.yaml", "such as 2.5m. Received: 0"),
        ("train.ipynb", "error: train.ipynb is a notebook."),
    ],
)
def test_mistakes_start_nothing_and_exit_with_2(jobs: list[JobSpec], arguments: str, message: str) -> None:
    result = run(arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.startswith("error: ") and "Usage" not in result.stderr
    assert "Traceback" not in result.stderr
    assert not jobs
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("options", "code"),
    [("", 5), ("--nproc 2 --logical-devices 1", 5), ("--run-dir runs/a", 5), ("--set name=3", 2)],
)
def test_what_is_refused_before_the_workers_start_leaves_no_directory(options: str, code: int) -> None:
    result = run(f"digits.yaml {options}")
    assert result.exit_code == code
    assert not Path("runs").exists()


def test_a_run_without_its_data_leaves_the_run_that_it_was_to_replace() -> None:
    kept = RunDir(Path("a"))
    kept.state_dir.mkdir(parents=True)
    kept.run_file.write_text("{}")
    kept.history_file.write_text("{}")
    assert run("digits.yaml --run-dir a --overwrite").exit_code == 5
    assert kept.history_file.exists()


@pytest.mark.parametrize("options", ["--resume auto", "--resume must --nproc 2 --logical-devices 1"])
def test_a_run_that_is_complete_starts_no_worker(options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> None:
        raise AssertionError("a worker was started")

    monkeypatch.setattr(LauncherEffects, "start", start)
    kept = create_run_dir("a", name="digits")
    kept.model_file.touch()
    note_completion(kept, 3)
    Path("digits.npz").touch()
    result = run(f"digits.yaml --run-dir a --set fit.epochs=3 {options}")
    assert (result.exit_code, result.stdout) == (0, f"{completion_text('digits', 3, kept)}\n")
    assert not kept.job_file.exists()


def test_a_job_that_may_lose_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[JobSpec] = []

    def run_job_of_hosts(spec: JobSpec, steps: object) -> int:
        started.append(spec)
        return 7

    monkeypatch.setattr(elastic_job, "run_elastic_job", run_job_of_hosts)
    list_of_hosts = "--workers 127.0.0.1:20000,192.0.2.1:20000,192.0.2.2:20000 --index 0"
    assert run(f"{list_of_hosts.replace('127.0.0.1', '192.0.2.9')} --min-workers 2 --grow train.py").exit_code == 7
    [job] = started
    assert job.elastic == ElasticOptions(2, 60.0, grow=True)
    assert job.max_restarts == 3
    assert job.options_in_common()["--min-workers"] == "2"


@pytest.mark.parametrize("options", ["--grow", "--rejoin-timeout 5"])
def test_options_of_a_job_that_may_lose_hosts_need_a_number(options: str, jobs: list[JobSpec]) -> None:
    result = run(f"{options} train.py")
    assert result.exit_code == 2
    assert f"{options} is for a job that may lose hosts. Expected --min-workers N" in result.output
    assert not jobs


@pytest.mark.parametrize(
    ("arguments", "workers", "says"),
    [
        ("train.py", 3, "tfdist: one worker on each of 3 GPUs; --nproc 1 runs one process on all of them\n"),
        ("--devices 0,2 train.py", 2, "tfdist: one worker on each of 2 GPUs"),
        ("digits.yaml", 1, "tfdist: one process on 3 GPUs, as it is to split them into logical devices (2 each)"),
        ("--quiet train.py", 3, ""),
        ("--nproc 1 train.py", 1, ""),
        ("--nproc 2 train.py", 2, ""),
        ("--devices 1 train.py", 1, ""),
        ("--workers 127.0.0.1:20000 train.py", 1, ""),
    ],
)
def test_workers_where_there_are_several_gpus(
    arguments: str, workers: int, says: str, jobs: list[JobSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFDIST_EMULATE_GPUS", "count=3")
    result = run(arguments)
    assert jobs[0].membership.num_workers == workers
    assert says in result.stderr if says else result.stderr == ""
    assert jobs[0].worker_per_gpu == (workers > 1 and "--nproc" not in arguments)


@pytest.mark.parametrize(
    "options", ["--run-dir x", "--overwrite", "--resume auto", "--copy-to s3://bucket/run", "--min-workers 2"]
)
def test_a_fast_dev_run_keeps_nothing_and_never_goes_on(options: str, jobs: list[JobSpec]) -> None:
    result = run(f"--fast-dev-run {options} train.py")
    name = options.partition(" ")[0]
    assert (result.exit_code, jobs) == (2, [])
    assert f"Received: --fast-dev-run {name}. Leave one of them out." in result.stderr


def test_a_fast_dev_run_is_a_job_in_a_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[JobSpec] = []

    def run_to_result(spec: JobSpec) -> RunResult:
        ran.append(spec)
        assert Path(spec.run_dir or "").parent.is_dir()
        return RunResult(0, step=2)

    monkeypatch.setattr(rehearsed_job, "run_to_result", run_to_result)
    result = run("--fast-dev-run digits.yaml")
    [job] = ran
    assert (result.exit_code, result.stdout) == (0, "")
    assert "tfdist: fast dev run of digits.yaml: 2 steps of training" in result.stderr
    assert job.config is not None and job.config.fit.epochs == 1 and job.rehearsal is not None
    assert not Path(job.rehearsal.folder).exists()
