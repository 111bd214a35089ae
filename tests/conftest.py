"""A bound for every test, and which of them run by default."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
from collections.abc import Iterator
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers.waiting import PATIENCE

DEFAULT_BOUND = 300.0
SLOW_TESTS = "TFDIST_SLOW_TESTS"
_OF_THE_MACHINE = re.compile(r"(?i:(http|https|all|grpc)_proxy)|TF_CONFIG|TFDIST_TOKEN|(SLURM|OMPI|PMIX?|MPI)_.*")
"""Variables by which runs here would go another way: by a proxy that knows no loopback, as tasks of a job."""
# A test that does not even take the signal, blocked in native code, ends the whole run this much later.
_HARD_EXTRA = 30.0


def pytest_configure(config: pytest.Config) -> None:
    # Its deadline for a single example fails on a busy machine, and so does its limit for making them; every test has a
    # bound of its own. The same examples each time, but in nightly runs: a change is not to fail over an older mistake.
    nightly = bool(os.environ.get(SLOW_TESTS))
    settings.register_profile(
        "tfdist", deadline=None, derandomize=not nightly, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("tfdist")
    config.addinivalue_line("markers", f"bound(seconds): how long a test may take (default {DEFAULT_BOUND:g} s)")
    config.addinivalue_line("markers", f"slow: much like another test that is faster; runs with {SLOW_TESTS}=1")
    for name in filter(_OF_THE_MACHINE.fullmatch, list(os.environ)):
        del os.environ[name]
    # In the background of a shell they are ignored, and would be by everything that a test starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        config.stash[_STDERR] = os.dup(2)
        return
    with capture.global_and_fixture_disabled():
        config.stash[_STDERR] = os.dup(2)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get(SLOW_TESTS):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in set(slow)]


def pytest_unconfigure(config: pytest.Config) -> None:
    os.close(config.stash[_STDERR])


_STDERR = pytest.StashKey[int]()


@pytest.fixture(autouse=True)
def bounded(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that takes longer than its bound on a slow machine."""
    marker = request.node.get_closest_marker("bound")
    seconds = PATIENCE * (float(marker.args[0]) if marker else DEFAULT_BOUND)

    def expire(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"took longer than its bound of {seconds:g} s")

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(seconds + _HARD_EXTRA, exit=True, file=request.config.stash[_STDERR])
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
