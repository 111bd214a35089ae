"""What a worker says that nobody launched, before nothing in its process can speak."""

from __future__ import annotations

import contextlib

import pytest

from tfdist.cluster import Cluster
from tfdist.training.session import session_setup as session
from tfdist.training.session.worker_context import JobPlace


def test_a_worker_without_a_launcher_says_whom_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bounds: list[float] = []

    def bounded(seconds: float, *, has_launcher: bool) -> contextlib.AbstractContextManager[None]:
        assert not has_launcher
        bounds.append(seconds)
        return contextlib.nullcontext()

    monkeypatch.setattr(session, "bounded", bounded)
    with session._forming(JobPlace(1, Cluster.parse("a:1,b:2"))):
        assert "worker 1 waits until all of a:1,b:2 have come, for 600 s at most" in capsys.readouterr().err
    assert bounds == [600.0]
