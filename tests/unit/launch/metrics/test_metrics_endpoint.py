"""Tests of the server of the metrics: its port, and callers of all kinds."""

from __future__ import annotations

import importlib.util
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tfdist.cluster.membership import Membership
from tfdist.errors import PortTakenError, UsageError
from tfdist.launch.job import run_job
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.metrics.metrics_endpoint import MetricsEndpoint
from tfdist.launch.metrics.run_metrics import RunMetrics
from tfdist.rundir.layout import RunDir

pytest.importorskip("prometheus_client")
SECONDS = 20.0


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[MetricsEndpoint]:
    with MetricsEndpoint("127.0.0.1", 0, RunMetrics("digits", 3)) as opened:
        opened.start()
        opened.follow(RunDir(tmp_path), has_chief=False)  # a reader of the directory would note facts of its own
        yield opened


def scrape(endpoint: MetricsEndpoint) -> str:
    with urllib.request.urlopen(endpoint.url, timeout=SECONDS) as answer:
        return answer.read().decode()


def test_a_scrape_has_what_is_known_at_that_moment(endpoint: MetricsEndpoint, tmp_path: Path) -> None:
    assert f'tfdist_run_info{{run="digits",run_dir="{tmp_path}"}} 1.0' in scrape(endpoint).splitlines()
    endpoint.metrics.restarted([])
    endpoint.metrics.note(run_dir='a "b"\nc', epoch_metrics={"loss": float("nan")})
    lines = scrape(endpoint).splitlines()
    assert {"# TYPE tfdist_restarts_total counter", "tfdist_restarts_total 1.0"} <= {*lines}
    assert 'tfdist_metric{name="loss"} NaN' in lines
    assert 'tfdist_run_info{run="digits",run_dir="a \\"b\\"\\nc"} 1.0' in lines


def test_who_says_nothing_keeps_no_one_waiting_and_is_hung_up_on(
    endpoint: MetricsEndpoint, capfd: pytest.CaptureFixture[str]
) -> None:
    from tfdist.launch.metrics.metrics_server import MOST_CALLERS

    endpoint._server._server._seconds = 1.0  # type: ignore[union-attr]
    silent = [socket.create_connection(address(endpoint), SECONDS) for _ in range(3)]
    assert "tfdist_attempt" in scrape(endpoint)
    for caller in silent:
        caller.settimeout(SECONDS)
        assert caller.recv(1) == b""
    many = [socket.create_connection(address(endpoint), SECONDS) for _ in range(2 * MOST_CALLERS)]
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            text = scrape(endpoint)
            break
        except (urllib.error.URLError, OSError):  # as long as all places are taken
            time.sleep(0.05)
    assert "tfdist_attempt" in text
    for caller in [*silent, *many]:
        caller.close()
    assert capfd.readouterr() == ("", "")


def address(endpoint: MetricsEndpoint) -> tuple[str, int]:
    host, _, port = endpoint.url.removeprefix("http://").removesuffix("/metrics").partition(":")
    return host, int(port)


def test_the_port_is_free_again_at_the_end() -> None:
    with MetricsEndpoint("127.0.0.1", 0, RunMetrics()) as opened:
        place = address(opened)
    with MetricsEndpoint(*place, RunMetrics()) as again:
        again.start()
        assert "tfdist_attempt" in scrape(again)


def test_nothing_is_served_without_a_port() -> None:
    with MetricsEndpoint("127.0.0.1", None, RunMetrics()) as endpoint:
        endpoint.start()
        endpoint.follow(RunDir(Path("/nowhere")), has_chief=True)
        assert endpoint.url == ""


def test_a_job_with_a_taken_port_makes_nothing(taken: int, tmp_path: Path) -> None:
    spec = job(tmp_path, metrics_port=taken)
    with pytest.raises(PortTakenError, match=rf"Port {taken} of --metrics-port is taken by pid \d+ .*Choose another"):
        run_job(spec)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ({"metrics_address": "localhost"}, "must be an IP address of this machine.*Received: 'localhost'"),
        ({"metrics_address": "192.0.2.7"}, "--metrics-address 192.0.2.7 cannot be listened on: .*Expected"),
    ],
)
def test_an_address_that_is_not_here(place: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=text):
        run_job(job(tmp_path, metrics_port=9400, **place))


def test_an_address_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Received: --metrics-address 0.0.0.0 alone. Add --metrics-port"):
        job(tmp_path, metrics_address="0.0.0.0")


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'tfdist\[prometheus\]'"):
        run_job(job(tmp_path, metrics_port=9400))


def job(path: Path, **more: Any) -> JobSpec:
    alone = Membership(None, (0,))
    return JobSpec(alone, "script", "train.py", run_dir=str(path / "run"), **more)
