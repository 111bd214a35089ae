"""`tfdist verify --kill --hosts` on hosts that are network namespaces."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.cli_process import ROOT, tfdist
from tests.helpers.processes import processes_with
from tests.helpers.resumable_model import write_config
from tests.helpers.waiting import PATIENCE, until
from tests.workers.traced_worker import LAST
from tfdist.verify.hosts import hosts_verification as run_module
from tfdist.verify.hosts.hosts_report import HostsVerification
from tfdist.verify.hosts.hosts_verification import verify_hosts
from tfdist.verify.hosts.namespace_hosts import NamespacesUnavailableError
from tfdist.verify.hosts.schedule import HostsSpec

MODULE = "tests.workers.traced_worker"


@pytest.fixture(autouse=True)
def _bounded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without long waits; in the end, nothing is left of it."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    monkeypatch.setenv("TFDIST_TEST_MARK", mark)
    monkeypatch.setattr(run_module, "_REJOIN_SECONDS", 4.0)
    yield
    until(lambda: not processes_with(f"TFDIST_TEST_MARK={mark}"), 20, "a process was left")


def verified(*args: str, folder: Path, **options: Any) -> tuple[HostsVerification, list[str]]:
    """Verifies with stand-in workers; returns the outcome, and what was told meanwhile."""
    told: list[str] = []
    options = {"keep": str(folder / "kept"), "start_timeout": 60 * PATIENCE, **options}
    spec = HostsSpec("script", "none.py", "stand-in", args=args, **options)
    try:
        return verify_hosts(spec, told.append, MODULE), told
    except NamespacesUnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.bound(200)
def test_a_job_that_loses_hosts_and_gets_them_back(tmp_path: Path) -> None:
    """Each kind of loss, that of the chief among them; and from three to two to three."""
    verification, told = verified(folder=tmp_path, seed=4)
    assert (verification.code, verification.steps, verification.failure) == (0, LAST, None)
    assert [told[0], told[-1]] == [
        "running stand-in on 3 hosts: untouched",
        "running stand-in on one worker: untouched",
    ]
    happened = [(each.event.kind, each.ended, each.workers) for each in verification.generations if each.event]
    assert [kind for kind, _, _ in happened] == ["restarted", "chief lost", "lost", "back"]
    assert [f"  after step {step}: " for _, step, _ in happened] == [line[: line.index(":") + 2] for line in told[2:6]]
    # The host that starts again at once is waited for, as long as this machine lets it.
    assert [workers for _, _, workers in happened][2:] == [3, 2]
    assert verification.generations[-1].workers == 3
    findings = {finding.what: finding for finding in verification.findings}
    assert "were trained again" in findings["samples"].compared
    assert " to the bit, differences up to " in findings["history"].compared
    assert (tmp_path / "kept" / "lossy" / "host-0" / "run" / "checkpoint").exists()


DOWN_TO_ONE = {"kills": 4, "seed": 26, "min_workers": 1}
"""Draws three hosts, two, three and one, and three again, of which the chief's is lost, and another one restarts."""


@pytest.mark.slow
@pytest.mark.bound(200)
def test_a_job_goes_from_three_hosts_to_two_to_three_to_one(tmp_path: Path) -> None:
    verification, _ = verified(folder=tmp_path, **DOWN_TO_ONE)
    assert (verification.code, verification.steps, verification.failure) == (0, LAST, None)
    assert [each.workers for each in verification.generations][:4] == [3, 2, 3, 1]
    assert verification.generations[-1].workers == 3
    assert {finding.what: finding.parted for finding in verification.findings} == dict.fromkeys(
        ("alone", "resume", "samples", "history", "weights")
    )


@pytest.mark.slow
@pytest.mark.bound(200)
def test_a_job_that_resumes_otherwise_is_found_out(tmp_path: Path) -> None:
    """The same, but that the weight is another one after each restart."""
    verification, told = verified("forgets", folder=tmp_path, seed=4, kills=1, tolerance=1e-4)
    assert (verification.code, verification.is_repeatable) == (6, True)
    assert {finding.what: finding.parted is None for finding in verification.findings} == {
        "resume": True,
        "samples": True,
        "history": False,
        "weights": False,
    }
    assert "running stand-in on one worker: untouched" not in told


@pytest.mark.bound(100)
def test_a_job_that_fails_is_reported_with_what_was_said(tmp_path: Path) -> None:
    verification, _ = verified("fails", folder=tmp_path)
    assert (verification.code, verification.findings) == (1, ())
    assert str(verification.failure).startswith("host 0 (tfd")
    assert ") ended with exit code 1 (this training does not work); " in str(verification.failure)
    assert str(verification.failure).endswith(f"all is kept in {tmp_path / 'kept'}")


BOUND = 500  # seconds: seven starts of three workers, one after the other


@pytest.mark.slow
@pytest.mark.bound(BOUND)
def test_a_training_that_loses_hosts(tmp_path: Path) -> None:
    """With dropout, batch normalization and gradients that are accumulated; to one worker and back to three."""
    config = write_config(tmp_path, seed=3, fit={"epochs": 8})
    done, report = verified_by_command(tmp_path, "--kills", 3, "--seed", 4, "--min-workers", 1, "--cut", config, code=0)
    assert "the same as untouched (exit code 0)" in done.stdout
    assert {comparison["what"]: comparison["same"] for comparison in report["comparisons"]} == dict.fromkeys(
        ("alone", "resume", "samples", "history", "weights"), True
    )
    events = [attempt["event"] for attempt in report["attempts"] if attempt["event"] is not None]
    assert {event["kind"] for event in events} == {"lost", "back", "chief lost", "restarted"}
    assert any(event["cut"] for event in events)
    assert [attempt["workers"] for attempt in report["attempts"]][:2] == [3, 1]
    assert report["attempts"][-1]["workers"] == 3


@pytest.mark.slow
@pytest.mark.bound(BOUND)
def test_a_training_on_three_hosts_on_two_on_three_and_on_one(tmp_path: Path) -> None:
    """To the bit as long as three train, and to rounding from then on."""
    config = write_config(tmp_path, seed=3, fit={"epochs": 8})
    drawn = [f"--{name.replace('_', '-')}={value}" for name, value in DOWN_TO_ONE.items()]
    _, report = verified_by_command(tmp_path, *drawn, config, code=0)
    compared = {comparison["what"]: comparison for comparison in report["comparisons"]}
    assert {what: comparison["same"] for what, comparison in compared.items()} == dict.fromkeys(
        ("alone", "resume", "samples", "history", "weights"), True
    )
    assert [attempt["workers"] for attempt in report["attempts"]][:4] == [3, 2, 3, 1]
    assert " to the bit, differences up to " in compared["history"]["compared"]


@pytest.mark.slow
@pytest.mark.bound(BOUND)
def test_a_training_whose_checkpoints_do_not_hold_all_of_it(tmp_path: Path) -> None:
    config = write_config(tmp_path, seed=3, model={"build": "tests.workers.forgetful_model.model"}, fit={"epochs": 4})
    done, report = verified_by_command(tmp_path, "--kills", 1, "--tolerance", 1e-3, config, code=6)
    same = {comparison["what"]: comparison["same"] for comparison in report["comparisons"]}
    assert same == {"resume": True, "samples": True, "history": False, "weights": False}
    assert report["repeatable"] is True
    assert "likely cause: a metric or a callback" in done.stdout


def verified_by_command(
    folder: Path, *arguments: object, code: int
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Runs `tfdist verify --kill --hosts 3`; returns what it printed and its report."""
    report = folder / "report.json"
    done = tfdist(
        "verify", "--kill", "--hosts", 3, "--report", report, *arguments, timeout=BOUND - 10, cwd=ROOT,
        environ={"TMPDIR": str(folder)},
    )  # fmt: skip
    if done.returncode == 2 and "network namespaces" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == code, done.stdout + done.stderr
    assert not any(folder.glob("tfdist-*")), "a run directory was left behind"
    return done, json.loads(report.read_text())
