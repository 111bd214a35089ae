"""The benchmark of many launchers: at its smallest, and what it says of what was measured."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from benchmarks.scale.command import main
from benchmarks.scale.measurement import Measured
from benchmarks.scale.report import ROWS, figures, picture, report
from benchmarks.scale.scale_job import ScaleJob
from tfdist.verify.hosts.namespace_hosts import NamespacesUnavailableError, namespace_hosts

FIELDS = [field.name for field in dataclasses.fields(Measured)]


def measured(launchers: int, factor: float) -> Measured:
    return Measured(**{name: launchers if name == "launchers" else factor for name in FIELDS})


def test_every_launcher_has_a_place_and_a_port_of_its_own() -> None:
    job = ScaleJob(("10.91.0.1", "10.91.0.2", "10.91.0.3"), 10, 60.0)
    assert [job.host_of(index) for index in range(10)] == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert len(set(map(str, job.cluster.workers))) == 10 and str(job.cluster.workers[4]) == "10.91.0.2:20000"
    threads = [index for host in range(3) for index in job.threads_on(host)]
    assert threads == list(range(1, 9))  # the first and the last are processes


def test_a_job_is_read_as_it_was_written(tmp_path: Path) -> None:
    job = ScaleJob(("10.91.0.1",), 4, 60.0)
    job.write(tmp_path)
    assert ScaleJob.read(tmp_path) == job


def test_the_report_has_all_that_was_measured_and_what_failed() -> None:
    found = {64: [measured(64, 1.0), measured(64, 3.0)], 1000: []}
    page = report(["# Heading"], found, ["1000 launchers: too few files"])
    assert "| time to form, s" in page and "2.00 (1.00 to 3.00)" in page and "- 1000 launchers: too few" in page
    assert page.count("–") == len(ROWS)
    assert picture(found).startswith("<svg") and len(figures(found)) == 2


@pytest.mark.parametrize("launchers", ["2", "7"])
def test_fewer_launchers_than_hosts_are_refused(launchers: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--launchers", launchers])
    assert "one for each of the --hosts" in capsys.readouterr().err


@pytest.mark.bound(120)
def test_a_small_job_is_measured(tmp_path: Path) -> None:
    try:
        with namespace_hosts(1):
            pass
    except NamespacesUnavailableError as error:
        pytest.skip(str(error))
    options = ["--launchers", "12", "--hosts", "2", "--seconds", "1", "--rounds", "1", "--out", str(tmp_path)]
    assert main(options) == 0
    [job] = json.loads((tmp_path / "scale.json").read_text())["jobs"]
    assert job["launchers"] == 12 and 0 < job["form_seconds"] < 60 and 0 < job["end_seconds"] < 30
    assert job["form_received"] >= 22  # from each of eleven: who it is, and that it has met all
    assert job["descriptors"] > 11
