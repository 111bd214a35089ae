from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tfdist.cli.main import main
from tfdist.cli.verify import verify
from tfdist.config import load_config
from tfdist.verify.hosts import hosts_verification as hosts_module
from tfdist.verify.hosts.hosts_report import HostsVerification
from tfdist.verify.hosts.schedule import HostsSpec
from tfdist.verify.killing import kill_verification as kill_module
from tfdist.verify.killing.kill_plan import KillSpec
from tfdist.verify.killing.kill_report import KillVerification
from tfdist.verify.replicas import verification as run_module
from tfdist.verify.replicas.variants import VerifySpec
from tfdist.verify.replicas.verification_report import ComparisonResult, ComparisonVerdict, Verification
from tfdist.verify.runs import Interrupted

CONFIG = """\
name: digits
model: {build: tfdist.models.mlp}
compile: {optimizer: adam, loss: mse}
data: {batch_size: 128, train: {format: npz, path: digits.npz, split: train}}
"""
FAILED = Verification(
    (ComparisonResult("2 replicas", "1 replica", ComparisonVerdict.FAILED, reason="so it is", code=5),), 1e-5, True
)


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    (tmp_path / "digits.yaml").write_text(CONFIG)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[VerifySpec]:
    """What would have been verified; each comes to a failure with exit code 5."""
    received: list[VerifySpec] = []

    def work(spec: VerifySpec, tell: Callable[[str], None]) -> Verification:
        received.append(spec)
        return FAILED

    monkeypatch.setattr(run_module, "verify", work)
    return received


def run(arguments: str) -> Result:
    return CliRunner().invoke(main, ["verify", *arguments.split()])


def test_the_flags_are_a_contract() -> None:
    options = [param for param in verify.params if isinstance(param, click.Option)]
    assert {name for option in options for name in option.opts} == {
        "-m",
        "--replicas",
        "--nproc",
        "--steps",
        "--kill",
        "--kills",
        "--hosts",
        "--min-workers",
        "--cut",
        "--tolerance",
        "--also",
        *("-o", "--output"),
        "--seed",
        "--devices",
        "--memory-limit",
        "--share-gpu",
        "--batch-norm",
        "--communication",
        "--compression",
        "--jit",
        "--kernels",
        "--shard",
        "--shard-embeddings",
        "--shard-over",
        "--tensor",
        "--context",
        "--offload",
        "--set",
        "--start-timeout",
        "--step-timeout",
        "--keep",
        "--show",
        "--verbose",
    }


def test_the_defaults_are_a_contract(asked: list[VerifySpec]) -> None:
    result = run("train.py --epochs 3 --nproc 9")
    assert result.exit_code == 5
    assert "FAILED  so it is" in result.stdout
    assert asked == [
        VerifySpec(
            "script",
            "train.py",
            "train",
            args=("--epochs", "3", "--nproc", "9"),
            seed=1,
            replicas=2,
            nproc=None,
            steps=5,
            tolerance=None,
            also=(),
        )
    ]


def test_a_config_with_options_after_it(asked: list[VerifySpec]) -> None:
    run("digits.yaml --set seed=8 --nproc 3 --replicas 1 --steps 7 --tolerance 1e-4 --also xla --also precision")
    (spec,) = asked
    assert (spec.target_kind, spec.name, spec.seed) == ("config", "digits", 8)
    assert spec.config == load_config("digits.yaml", ["seed=8"])
    assert (spec.nproc, spec.replicas, spec.steps, spec.tolerance) == (3, 1, 7, 1e-4)
    assert spec.also == ("xla", "precision")


@pytest.mark.parametrize(("arguments", "seed"), [("digits.yaml", 1), ("digits.yaml --set seed=8 --seed 3", 3)])
def test_every_run_has_one_seed(asked: list[VerifySpec], arguments: str, seed: int) -> None:
    run(arguments)
    assert asked[0].seed == seed


def test_a_module(asked: list[VerifySpec]) -> None:
    run("--steps 3 -m package.module --steps 4")
    (spec,) = asked
    assert (spec.target_kind, spec.target, spec.args, spec.steps) == ("module", "package.module", ("--steps", "4"), 3)


def test_the_report(asked: list[VerifySpec]) -> None:
    assert run("--report report.json train.py").exit_code == 5
    content: dict[str, Any] = json.loads(Path("report.json").read_text())
    assert (content["target"], content["exit_code"], content["comparisons"][0]["verdict"]) == ("train.py", 5, "failed")


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[KillSpec]:
    """What would have been killed; each comes to a failure with exit code 4."""
    received: list[KillSpec] = []

    def work(spec: KillSpec, tell: Callable[[str], None]) -> KillVerification:
        received.append(spec)
        return KillVerification(failure="so it is", failure_code=4)

    monkeypatch.setattr(kill_module, "verify_killed", work)
    return received


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [
        ("digits.yaml", "synchronized"),
        ("--batch-norm replica digits.yaml", "replica"),
        ("digits.yaml --set batch_norm=replica --batch-norm synchronized", "synchronized"),
        ("train.py", "synchronized"),
        ("--batch-norm replica train.py", "replica"),
        ("--kill --batch-norm replica train.py", "replica"),
    ],
)
def test_whose_statistics_batch_normalization_takes(
    asked: list[VerifySpec], killed: list[KillSpec], tmp_path: Path, arguments: str, chosen: str
) -> None:
    run(arguments)
    (spec,) = asked or killed
    assert spec.job(1, tmp_path).batch_norm == chosen


@pytest.mark.parametrize("target", ["digits.yaml", "train.py"])
@pytest.mark.parametrize("also", ["", "--kill "])
def test_by_which_kernels_all_runs_compute(
    asked: list[VerifySpec], killed: list[KillSpec], tmp_path: Path, target: str, also: str
) -> None:
    run(f"{also}--kernels onednn {target}")
    (spec,) = asked or killed
    assert spec.job(2, tmp_path).kernels == "onednn"


@pytest.mark.parametrize("also", ["", "--kill "])
def test_what_xla_compiles_in_all_runs(
    asked: list[VerifySpec], killed: list[KillSpec], tmp_path: Path, also: str
) -> None:
    for target in ("train.py", "digits.yaml"):
        run(f"{also}--jit on {target}")
    of_script, of_config = (spec.job(2, tmp_path) for spec in asked or killed)
    assert (of_script.jit, of_config.jit) == ("on", "auto")
    assert of_config.config is not None and of_config.config.compile.jit_compile is True


@pytest.mark.parametrize("target", ["digits.yaml", "train.py"])
@pytest.mark.parametrize("also", ["", "--kill "])
def test_how_gradients_are_sent(
    asked: list[VerifySpec], killed: list[KillSpec], tmp_path: Path, target: str, also: str
) -> None:
    run(f"{also}--nproc 2 --compression bfloat16 --communication ring --report report.json {target}")
    (spec,) = asked or killed
    job = spec.job(2, tmp_path)
    assert (job.compression, job.communication) == ("bfloat16", "ring")
    options = json.loads(Path("report.json").read_text())["options"]
    sent = {"communication": "ring", "compression": "bfloat16"}
    unsharded = {"shard": "none", "shard_over": "all", "shard_embeddings": None, "offload": "none"}
    unsharded |= {"tensor": 1, "context": 1}
    assert options == {"batch_norm": "synchronized", **unsharded, **sent}


@pytest.mark.parametrize("target", ["digits.yaml", "train.py"])
@pytest.mark.parametrize("also", ["", "--kill "])
def test_what_workers_hold_a_part_of(
    asked: list[VerifySpec], killed: list[KillSpec], tmp_path: Path, target: str, also: str
) -> None:
    run(f"{also}--nproc 2 --shard zero2 --shard-embeddings 5e3 --report report.json {target}")
    (spec,) = asked or killed
    assert (spec.job(2, tmp_path).shard, spec.job(2, tmp_path).shard_embeddings) == ("zero2", 5000)
    # A worker alone, on however many logical devices, holds everything.
    assert (spec.job(1, tmp_path).shard, spec.job(1, tmp_path).shard_embeddings) == ("none", None)
    options = json.loads(Path("report.json").read_text())["options"]
    assert (options["shard"], options["shard_embeddings"]) == ("zero2", 5000)


@pytest.mark.parametrize("target", ["digits.yaml", "train.py"])
@pytest.mark.parametrize("also", ["", "--kill "])
def test_what_workers_keep_elsewhere(
    asked: list[VerifySpec], killed: list[KillSpec], tmp_path: Path, target: str, also: str
) -> None:
    run(f"{also}--nproc 2 --offload optimizer:disk --report report.json {target}")
    (spec,) = asked or killed
    jobs = {
        "workers": spec.job(2, tmp_path),
        "one device": spec.job(1, tmp_path),
        "killed": spec.job(1, tmp_path, offload=spec.offload),
    }
    assert {name: job.offload for name, job in jobs.items()} == {
        "workers": "optimizer:disk",
        "one device": "none",
        "killed": "optimizer:disk",
    }
    assert all(job.config is None or job.config.offload == job.offload for job in jobs.values())
    assert json.loads(Path("report.json").read_text())["options"]["offload"] == "optimizer:disk"


@pytest.mark.parametrize("target", ["digits.yaml", "train.py"])
def test_groups_of_workers(asked: list[VerifySpec], tmp_path: Path, target: str) -> None:
    run(f"--nproc 4 --shard zero2 --shard-over 2 --report report.json {target}")
    (spec,) = asked
    assert [str(spec.job(workers, tmp_path).shard_over) for workers in (4, 1)] == ["2", "all"]
    assert str(json.loads(Path("report.json").read_text())["options"]["shard_over"]) == "2"


@pytest.mark.parametrize(
    "option", ["--shard zero1", "--shard-embeddings 9", "--offload optimizer", "--tensor 2", "--context 2"]
)
def test_shards_need_workers(option: str, asked: list[VerifySpec]) -> None:
    result = run(f"{option} train.py")
    assert result.exit_code == 2 and "Expected --nproc N, too" in result.output
    assert not asked


def test_the_defaults_of_kill_are_a_contract(killed: list[KillSpec]) -> None:
    result = run("--kill train.py --kills 9")
    assert result.exit_code == 4
    assert "FAILED  so it is" in result.stdout
    args = ("--kills", "9")
    assert killed == [KillSpec("script", "train.py", "train", args=args, seed=1, workers=2, kills=3, steps=None)]


def test_kill_with_options(killed: list[KillSpec]) -> None:
    run("digits.yaml --kill --kills 5 --nproc 1 --steps 70 --set fit.epochs=3 --seed 4 --keep kept --report out.json")
    (spec,) = killed
    assert (spec.target, spec.name) == ("digits.yaml", "digits")
    assert spec.config == load_config("digits.yaml", ["fit.epochs=3"])
    assert (spec.workers, spec.kills, spec.steps, spec.seed, spec.keep) == (1, 5, 70, 4, "kept")
    content = json.loads(Path("out.json").read_text())
    assert (content["target"], content["exit_code"], content["failure"]) == ("digits.yaml", 4, "so it is")


@pytest.mark.parametrize("option", ["--replicas 2", "--tolerance 1e-3", "--also xla"])
def test_kill_compares_to_the_bit_and_on_the_same_workers(killed: list[KillSpec], option: str) -> None:
    result = run(f"--kill {option} train.py")
    assert result.exit_code == 2
    assert f"Expected --kill without {option.split()[0]}" in result.stderr
    assert not killed


@pytest.fixture
def lossy(monkeypatch: pytest.MonkeyPatch) -> list[HostsSpec]:
    """What would have lost hosts; each comes to a failure with exit code 3."""
    received: list[HostsSpec] = []

    def work(spec: HostsSpec, tell: Callable[[str], None]) -> HostsVerification:
        received.append(spec)
        return HostsVerification(failure="so it is", failure_code=3)

    monkeypatch.setattr(hosts_module, "verify_hosts", work)
    return received


def test_the_defaults_of_hosts_are_a_contract(lossy: list[HostsSpec]) -> None:
    result = run("--kill --hosts 4 train.py --cut")
    assert result.exit_code == 3
    assert "FAILED  so it is" in result.stdout
    assert lossy == [
        HostsSpec("script", "train.py", "train", args=("--cut",), seed=1, hosts=4, kills=3, min_workers=None, cut=False)
    ]
    assert (lossy[0].least, lossy[0].steps, lossy[0].tolerance) == (3, None, None)


def test_hosts_with_options(lossy: list[HostsSpec]) -> None:
    run("digits.yaml --kill --hosts 3 --min-workers 1 --kills 5 --cut --tolerance 1e-3 --steps 70 --report out.json")
    (spec,) = lossy
    assert (spec.hosts, spec.least, spec.kills, spec.cut, spec.tolerance, spec.steps) == (3, 1, 5, True, 1e-3, 70)
    content = json.loads(Path("out.json").read_text())
    assert (content["target"], content["exit_code"], content["hosts"]) == ("digits.yaml", 3, 3)


def test_a_signal(asked: list[VerifySpec], monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(spec: VerifySpec, tell: Callable[[str], None]) -> Verification:
        raise Interrupted(143)

    monkeypatch.setattr(run_module, "verify", stopped)
    assert run("train.py").exit_code == 143


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("absent.py", "error: The script absent.py cannot be read"),
        ("--set fit.epochs=3 train.py", "error: --set overrides an entry of a config, and train.py is none."),
        ("--replicas 1 train.py", "error: There is nothing to compare one replica with."),
        ("--nproc 1 train.py", "--nproc"),
        ("--compression float16 train.py", "error: --compression is of the gradients that workers send"),
        ("--compression int8 --nproc 2 train.py", "'int8' is not one of 'none', 'bfloat16', 'float16'"),
        ("--steps 0 train.py", "--steps"),
        ("--kills 2 train.py", "error: --kills says how often --kill kills."),
        ("--kill --kills 0 train.py", "--kills"),
        ("--hosts 3 train.py", "error: --hosts says on how many hosts --kill loses some. Expected --kill, too."),
        ("--kill --cut train.py", "error: --cut is for hosts that are lost. Expected --kill --hosts N, too."),
        ("--min-workers 2 train.py", "error: --min-workers is for hosts that are lost."),
        ("--kill --hosts 3 --nproc 2 train.py", "error: --hosts N trains on one worker of each host. Expected --hosts"),
        ("--kill --hosts 3 --also xla train.py", "Expected --hosts without --also. Received: --hosts --also"),
        ("--kill --hosts 1 train.py", "error: One host that is lost leaves nobody"),
        ("--kill --hosts 3 --min-workers 4 train.py", "error: --min-workers is the fewest of the hosts that go on."),
        ("--tolerance 1 train.py", "expected a relative difference from 0 and below 1. Received: 1"),
        ("--tolerance nan train.py", "expected a relative difference from 0 and below 1. Received: nan"),
        ("--also speed train.py", "'speed' is not one of 'xla', 'communication', 'precision'"),
        ("--report absent/report.json train.py", "error: --output expects a file in a directory that exists."),
        ("--report . train.py", "error: --output expects a file in a directory that exists."),
        # As of a directory that is closed to this user, of such a name the system does not say whether it is there.
        (f"--report {300 * 'a'}/b.json train.py", "error: --output expects a file in a directory that exists."),
    ],
)
def test_mistakes_start_nothing_and_exit_with_2(asked: list[VerifySpec], arguments: str, message: str) -> None:
    result = run(arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not asked


def test_a_report_in_a_directory_without_write_permission_starts_nothing(
    asked: list[VerifySpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    result = run("--report report.json train.py")
    assert result.exit_code == 2 and "in a directory that this user can write to" in result.stderr
    assert not asked
