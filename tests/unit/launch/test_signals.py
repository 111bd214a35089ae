from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tfdist.launch.signals import LauncherStopped, Signals, describe_signal


@pytest.fixture(autouse=True)
def as_they_were() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_recorded_and_wakes_the_launcher(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Signals() as signals:
        signals.check()
        os.kill(os.getpid(), number)
        assert signals.received == [number]
        with pytest.raises(LauncherStopped) as stopped:
            signals.check()
        assert stopped.value.exit_code == 128 + number
    assert signal.getsignal(number) == before


@pytest.mark.parametrize(("number", "heard"), [(signal.SIGINT, True), (signal.SIGHUP, False)])
def test_of_ignored_signals_sigint_is_handled(number: signal.Signals, heard: bool) -> None:
    """Shells start background jobs with SIGINT ignored; nohup ignores SIGHUP on purpose."""
    signal.signal(number, signal.SIG_IGN)
    with Signals() as signals:
        os.kill(os.getpid(), number)
        assert signals.received == ([number] if heard else [])
    assert signal.getsignal(number) is signal.SIG_IGN


def test_sigterm_that_comes_twice_at_once_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm sends it twice when it preempts a job; a second one is to end workers that do not stop."""
    now = [100.0]
    monkeypatch.setattr("tfdist.launch.signals.time.monotonic", lambda: now[0])
    with Signals() as signals:
        for passed in (0.0, 0.01, 0.01, 2.5):
            now[0] += passed
            os.kill(os.getpid(), signal.SIGTERM)
        assert signals.received == [signal.SIGTERM] * 2
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        assert signals.received[2:] == [signal.SIGINT] * 2


def test_signals_without_a_name_have_their_number() -> None:
    assert describe_signal(signal.SIGTERM).startswith("SIGTERM to the launcher on ")
    assert describe_signal(signal.SIGRTMIN + 3, "worker 1").startswith(f"signal {signal.SIGRTMIN + 3} to worker 1 on ")
