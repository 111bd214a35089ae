from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tfdist.doctor.mesh.link_measurement import (
    PINGS,
    STALLED_SECONDS,
    Clocks,
    LinkQuality,
    Measurement,
    MeasurementPhase,
    Ping,
    answer,
    fastest,
)
from tfdist.net.line_socket import LineSocket


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def clocks(self, ahead: float = 0.0) -> Clocks:
        return Clocks(lambda: self.now, lambda: self.now + ahead)


@pytest.fixture
def lines() -> Iterator[tuple[LineSocket, LineSocket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield LineSocket(ours, 1 << 18), LineSocket(theirs, 1 << 18)


def exchange(measurement: Measurement, asking: LineSocket, other: LineSocket, time: Time, ahead: float) -> None:
    """One turn: a message travels 5 ms each way."""
    asking.flush()
    messages = other.receive()
    time.now += 0.005
    for message in messages:
        answer(other, message, time.clocks(ahead))
    time.now += 0.005
    for message in asking.receive():
        measurement.take(message)


def test_a_line_is_measured(lines: tuple[LineSocket, LineSocket]) -> None:
    time = Time()
    measurement = Measurement(lines[0], time.clocks())
    for _ in range(2000):
        if measurement.phase is MeasurementPhase.DONE:
            break
        exchange(measurement, *lines, time, ahead=7.0)
    found = measurement.result()
    assert found is not None and found.bandwidth is not None
    assert found.round_trip == pytest.approx(0.01)
    assert found.offset == pytest.approx(7.0)
    assert found.bandwidth > 0
    assert not measurement.stalled()


def test_a_slow_line_gets_no_large_load(lines: tuple[LineSocket, LineSocket]) -> None:
    time = Time()
    measurement = Measurement(lines[0], time.clocks())
    for _ in range(PINGS):
        exchange(measurement, *lines, time, ahead=0.0)
    assert measurement.phase is MeasurementPhase.SMALL
    time.now += 1.0
    measurement.take({"loaded": True})
    assert measurement.phase is MeasurementPhase.DONE
    assert measurement.result() == LinkQuality(
        pytest.approx(0.01), pytest.approx(0.0, abs=1e-9), pytest.approx(2.6e5, rel=0.1)
    )


def test_a_line_that_falls_silent_has_stalled(lines: tuple[LineSocket, LineSocket]) -> None:
    time = Time()
    measurement = Measurement(lines[0], time.clocks())
    assert measurement.result() is None
    exchange(measurement, *lines, time, ahead=0.0)
    assert not measurement.stalled()
    time.now += STALLED_SECONDS + 1
    assert measurement.stalled() and measurement.phase is MeasurementPhase.PINGS
    assert measurement.result() == LinkQuality(pytest.approx(0.01), pytest.approx(0.0, abs=1e-9), None)


def test_other_messages_do_not_disturb_it(lines: tuple[LineSocket, LineSocket]) -> None:
    measurement = Measurement(lines[0], Time().clocks())
    for message in ({"loaded": True}, {"pong": "noon"}, {"pair": {}}):
        measurement.take(message)
    assert measurement.result() is None and measurement.phase is MeasurementPhase.PINGS


def test_the_fastest_ping_tells_the_offset_of_the_clocks() -> None:
    late, quick = Ping(asked=10.0, told=13.4, took=0.8), Ping(asked=11.0, told=14.05, took=0.1)
    assert fastest([late, quick]) is quick
    assert quick.offset == pytest.approx(3.0)


@pytest.mark.parametrize("told", [None, "5", [], float("nan"), float("inf"), 10**400])
def test_an_answer_that_is_no_time_is_ignored(told: object, lines: tuple[LineSocket, LineSocket]) -> None:
    measurement = Measurement(lines[0], Time().clocks())
    measurement.take({"pong": told})
    assert (measurement.phase, measurement.result()) == (MeasurementPhase.PINGS, None)
