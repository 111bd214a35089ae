"""Whose turn it is to be dialled, with connectors that are told what comes of it."""

from __future__ import annotations

from typing import Any, cast

from tfdist.launch.rendezvous.peer_discovery import MOST_AT_ONCE, Dialler
from tfdist.net.connection_attempts import DialOutcome, DialStatus
from tfdist.net.connector import Connector
from tfdist.net.hello import Hello

REFUSED = DialOutcome(DialStatus.REFUSED)
RETRY = 0.2


class Dialled:
    """A connector whose attempts end when the test says so: `answers` with a meeting, else with a refusal."""

    def __init__(self, index: int, here: Here) -> None:
        self.index, self.here = index, here
        self.seen = DialOutcome(DialStatus.NOT_TRIED)
        self.met: object | None = None
        self.mismatch: str | None = None
        self.understood = None
        self.trying = False
        self.begun = 0
        self.next_try = 0.0

    @property
    def is_idle(self) -> bool:
        return not self.trying and self.met is None

    @property
    def is_due(self) -> bool:
        return self.here.now >= self.next_try

    def hurry(self) -> None:
        self.next_try = self.here.now

    def step(self) -> None:
        if not self.trying:
            self.trying, self.begun = True, self.begun + 1
        elif self.index in self.here.answering:
            self.trying, self.met = False, object()
        elif self.index not in self.here.silent:
            self.trying, self.seen, self.next_try = False, REFUSED, self.here.now + RETRY

    def waiting_for(self) -> tuple[list[Any], list[Any]]:
        return [self.index], []

    def lose(self) -> None:
        self.met = None


class Here:
    """A dialler of workers 1 to `count`, and its time."""

    def __init__(self, count: int) -> None:
        self.now = 0.0
        self.silent: set[int] = set()
        self.answering: set[int] = set()
        self.connectors = {index: Dialled(index, self) for index in range(1, count + 1)}
        self.dialler = Dialler(cast(dict[int, Connector[Hello]], self.connectors), lambda: self.now)

    def pass_for(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.05)):
            self.now += 0.05
            self.dialler.step()

    def dialled(self) -> list[int]:
        return cast(list[int], self.dialler.waiting_for()[0])


def test_few_workers_are_dialled_again_and_again() -> None:
    here = Here(3)
    here.pass_for(2.0)
    assert all(connector.begun >= 5 for connector in here.connectors.values())
    assert here.dialler.missing() == dict.fromkeys((1, 2, 3), REFUSED)


def test_of_many_a_bounded_number_is_dialled_at_once_and_each_in_turn() -> None:
    here = Here(1000)
    here.silent = set(range(1, 1001))
    here.pass_for(1.0)
    assert len(here.dialled()) == MOST_AT_ONCE
    here.silent.clear()
    here.pass_for(10.0)
    tries = [connector.begun for connector in here.connectors.values()]
    assert min(tries) >= 2 and max(tries) - min(tries) <= 1 and sum(tries) < 4000


def test_who_has_called_is_dialled_before_the_others() -> None:
    here = Here(1000)
    here.pass_for(0.5)
    here.dialler.called(900)
    here.dialler.step()
    assert 900 in here.dialled()


def test_who_has_called_is_not_made_to_wait_for_the_next_try() -> None:
    here = Here(1)
    here.pass_for(0.1)
    assert here.dialled() == [] and here.connectors[1].begun == 1
    here.answering.add(1)
    here.dialler.called(1)
    here.dialler.step()
    here.dialler.step()
    assert here.dialler.has_met_all and here.dialler.missing() == {}
    assert [connector.index for connector in here.dialler.newly_met()] == [1]
    assert here.dialler.newly_met() == []


def test_who_is_lost_is_missed_and_dialled_again() -> None:
    here = Here(2)
    here.answering = {1, 2}
    here.pass_for(0.2)
    assert here.dialler.has_met_all
    here.answering = {1}
    here.dialler.lose(2)
    assert list(here.dialler.missing()) == [2] and not here.dialler.has_met_all
    here.answering = {1, 2}
    here.pass_for(0.2)
    assert here.dialler.has_met_all


def test_who_cannot_take_part_is_told_of_and_dialled_no_more() -> None:
    here = Here(2)
    here.dialler.step()
    here.connectors[2].mismatch, here.connectors[2].trying = "has no token", False
    here.silent = {2}
    begun = here.connectors[2].begun
    assert here.dialler.mismatch() == "has no token"
    assert here.connectors[2].begun == begun and 2 in here.dialler.missing()
