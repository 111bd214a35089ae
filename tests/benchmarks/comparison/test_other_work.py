from __future__ import annotations

import pytest

from benchmarks.comparison import other_work
from benchmarks.comparison.other_work import OtherWork, busy_seconds


def test_idle_time_waiting_and_guests_are_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_work.os, "sysconf", lambda name: 100)
    # user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice
    assert busy_seconds("cpu  100 20 30 5000 600 7 3 40 90 10\ncpu0 1 1\n") == pytest.approx(2.0)


@pytest.mark.parametrize(("own", "cores", "quiet"), [(5.0, 0.0, True), (4.5, 0.05, True), (1.0, 0.4, False)])
def test_the_work_of_others_is_what_is_not_ones_own(
    own: float, cores: float, quiet: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = {"monotonic": 100.0, "busy": 50.0, "own": 7.0}
    monkeypatch.setattr(other_work.time, "monotonic", lambda: now["monotonic"])
    monkeypatch.setattr(other_work, "busy_seconds", lambda stat: now["busy"])
    monkeypatch.setattr(other_work, "_own_seconds", lambda: now["own"])
    others = OtherWork()
    now.update(monotonic=110.0, busy=55.0, own=7.0 + own)
    assert others.cores() == pytest.approx(cores)
    assert others.describe().startswith("Other processes" if quiet else "**Other processes")
    assert f"took {cores:.2f} cores" in others.describe()


def test_the_machine_is_asked() -> None:
    assert OtherWork().cores() >= 0
