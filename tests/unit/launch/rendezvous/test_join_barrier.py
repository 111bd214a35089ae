"""The join barrier with scripted lines: when the chief's launcher says go, and what the others tell it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tfdist.cluster import Cluster
from tfdist.errors import DataError, FormingError
from tfdist.launch.rendezvous.followers import CHIEF, Follower, Overview
from tfdist.launch.rendezvous.join_barrier import FollowerBarrier, LateError, LeaderBarrier, abort
from tfdist.launch.rendezvous.peer_discovery import PeerDiscovery
from tfdist.net.connection_attempts import DialOutcome, DialStatus
from tfdist.net.hello import Hello
from tfdist.net.line_socket import LineError, LineSocket, Message

CLUSTER = Cluster.parse("a:20000,b:20000,c:20000")
GO = {"run_dir": "runs/x"}
TERMS: Message = {"terms": {"options": {"--compression": "none"}}}
REFUSED = DialOutcome(DialStatus.REFUSED)


class NoSocket:
    def setsockopt(self, *_: Any) -> None:
        """Takes any option."""


class ScriptedLine:
    """A line whose other end says what a test has put into `coming`, and then hangs up if it `ends`."""

    connection = NoSocket()

    def __init__(self, *coming: Message | LineError, ends: bool = False) -> None:
        self.coming, self.ends, self.sent = list(coming), ends, list[Message]()

    has_unsent = False

    def fileno(self) -> int:
        return -1

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def send_encoded(self, body: bytes) -> None:
        self.sent.append(json.loads(body))

    def flush(self) -> None:
        """Everything is sent already."""

    def receive(self, limit: int | None = None) -> list[Message]:
        now, self.coming = self.coming[:limit], self.coming[len(self.coming[:limit]) :]
        for each in now:
            if isinstance(each, LineError):
                raise each
        return cast(list[Message], now)

    def is_closed(self) -> bool:
        return self.ends and not self.coming

    def close(self) -> None:
        self.coming, self.ends = [], True


@dataclass
class Met:
    """The connector of a worker that was dialled."""

    line: ScriptedLine | None
    met: Hello | None
    lost: int = 0


class Present:
    """The followers, of which every one is heard each time."""

    def __init__(self, *followers: Follower) -> None:
        self.all = list(followers)

    def __iter__(self) -> Iterator[Follower]:
        return iter(list(self.all))

    def hear(self) -> list[Follower]:
        for each in self.all:
            each.listen()
        return list(self.all)

    def are(self, count: int) -> bool:
        return sum(len(each.hello.local) for each in self.all) == count

    def miss_nobody(self) -> bool:
        return all(each.missing == {} for each in self.all)


@dataclass
class Here:
    """Who is here, as a discovery knows it."""

    local: tuple[int, ...]
    missed: dict[int, DialOutcome] = field(default_factory=dict)
    followers: Present = field(default_factory=Present)
    connectors: dict[int, Met] = field(default_factory=dict)
    forgotten: list[tuple[int, ...]] = field(default_factory=list)
    overview: Overview | None = None
    cluster = CLUSTER

    @property
    def has_met_all(self) -> bool:
        return not self.missed

    def own_overview(self) -> Overview:
        return Overview("a", "2 of 3 workers are here", 1, ())

    def lose_chief(self) -> None:
        chief = self.connectors[CHIEF]
        chief.lost += 1
        chief.line, chief.met = None, None

    @property
    def hello(self) -> Hello:
        return Hello.own(CLUSTER, self.local)

    @property
    def leads(self) -> bool:
        return CHIEF in self.local

    @property
    def remote(self) -> tuple[int, ...]:
        return tuple(index for index in range(len(CLUSTER)) if index not in self.local)

    def missing(self) -> dict[int, DialOutcome]:
        return self.missed

    def forget(self, follower: Follower) -> None:
        self.followers.all.remove(follower)
        self.forgotten.append(follower.hello.local)


def follower(index: int, line: ScriptedLine) -> Follower:
    return Follower(Hello.own(CLUSTER, (index,)), cast(LineSocket, line))


def leader_of(here: Here) -> LeaderBarrier:
    return LeaderBarrier(cast(PeerDiscovery, here), lambda: GO, TERMS["terms"])


MEETS_ALL: Message = {"missing": {}}
MISSES_TWO: Message = {"missing": {"2": "refuses the connection"}}


@pytest.mark.parametrize(
    ("said", "missed", "goes"),
    [
        ({1: [MEETS_ALL], 2: [MEETS_ALL]}, {}, True),
        ({1: [MEETS_ALL], 2: [MEETS_ALL]}, {2: REFUSED}, False),  # 2 has dialled the chief's, which reaches it not
        ({1: [MEETS_ALL], 2: [MEETS_ALL]}, {1: REFUSED, 2: REFUSED}, False),
        ({1: [MISSES_TWO], 2: [MEETS_ALL]}, {}, False),  # 1 and 2 reach each other one way only
        ({1: [MEETS_ALL], 2: []}, {}, False),  # 2 has not said yet whom it misses
        ({1: [MEETS_ALL]}, {}, False),  # the chief's has dialled 2, which reaches the chief's not
        ({2: [MEETS_ALL]}, {}, False),
        ({}, {}, False),
        ({1: [MISSES_TWO, MEETS_ALL], 2: [MEETS_ALL]}, {}, True),
        ({1: [MEETS_ALL, MISSES_TWO], 2: [MEETS_ALL]}, {}, False),
    ],
)
def test_the_chiefs_launcher_says_go_when_every_two_have_met_both_ways(
    said: dict[int, list[Message]], missed: dict[int, DialOutcome], goes: bool
) -> None:
    lines = {index: ScriptedLine(*messages) for index, messages in said.items()}
    here = Here((0,), missed, Present(*(follower(index, line) for index, line in lines.items())))
    formed = leader_of(here).step()
    assert (formed is not None) == goes
    assert {index: line.sent for index, line in lines.items()} == {
        index: [TERMS, {"go": GO}] if goes else [TERMS] for index in lines
    }
    if formed is not None:
        assert formed.go == GO
        assert formed.links.leads and formed.links.remote == (1, 2)


def test_a_launcher_that_leaves_before_the_go_is_missed_again() -> None:
    lines = {1: ScriptedLine(MEETS_ALL, ends=True), 2: ScriptedLine(MEETS_ALL)}
    here = Here((0,), followers=Present(*(follower(index, line) for index, line in lines.items())))
    assert leader_of(here).step() is None
    assert [each.hello.local for each in here.followers] == [(2,)]
    assert here.forgotten == [(1,)]


def test_the_reason_of_a_launcher_that_gives_up_is_heard_before_it_is_dropped() -> None:
    gone = ScriptedLine({"abort": {"code": 5, "text": "No data.", "host": "b"}}, ends=True)
    here = Here((0,), followers=Present(follower(2, ScriptedLine(MEETS_ALL)), follower(1, gone)))
    with pytest.raises(FormingError, match="(?s)No data.*from the launcher on b") as raised:
        leader_of(here).step()
    assert raised.value.exit_code == 5


def joining(line: ScriptedLine, **missed: DialOutcome) -> tuple[FollowerBarrier, Here]:
    """The barrier of the launcher of worker 1, which has met the chief's over `line`."""
    here = Here((1,), connectors={CHIEF: Met(line, Hello.own(CLUSTER, (0,)))})
    here.missed = {int(name[1:]): seen for name, seen in missed.items()}
    return FollowerBarrier(cast(PeerDiscovery, here), lambda terms: None), here


def test_the_terms_are_said_once() -> None:
    line = ScriptedLine(MISSES_TWO)
    leader = leader_of(Here((0,), followers=Present(follower(1, line))))
    for _ in range(2):
        assert leader.step() is None
    assert line.sent == [TERMS]


def test_a_follower_says_nothing_before_it_knows_the_terms() -> None:
    line = ScriptedLine()
    barrier, _ = joining(line)
    assert barrier.step() is barrier.step() is None
    assert line.sent == []
    line.coming.append(TERMS)
    assert barrier.step() is barrier.step() is None
    assert line.sent == [MEETS_ALL]


def test_a_follower_tells_whom_it_misses_once_and_again_when_that_changes() -> None:
    line = ScriptedLine(TERMS)
    barrier, here = joining(line, w2=REFUSED)
    for _ in range(3):
        assert barrier.step() is None
    here.missed = {}
    assert barrier.step() is None
    assert [list(message["missing"]) for message in line.sent] == [[2], []]


def test_a_follower_tells_a_chiefs_launcher_that_was_started_again() -> None:
    """Which may have other terms."""
    other: Message = {"terms": {"options": {"--compression": "bfloat16"}}}
    line, again = ScriptedLine(TERMS, ends=True), ScriptedLine(other, {"go": GO})
    asked: list[Any] = []
    here = Here((1,), connectors={CHIEF: Met(line, Hello.own(CLUSTER, (0,)))})
    barrier = FollowerBarrier(cast(PeerDiscovery, here), asked.append)
    assert barrier.step() is None
    assert here.connectors[CHIEF].lost == 1
    assert barrier.step() is None  # not met yet
    here.connectors[CHIEF] = Met(again, Hello.own(CLUSTER, (0,)))
    assert barrier.step() is None
    formed = barrier.step()
    assert asked == [TERMS["terms"], other["terms"]]
    assert again.sent == [MEETS_ALL]
    assert formed is not None and formed.go == GO
    assert not formed.links.leads and formed.links.remote == (0, 2)


@pytest.mark.parametrize("word", [{"abort": {"code": 5, "text": "", "host": "a"}}, {"go": GO}])
def test_a_follower_that_cannot_take_part_says_so_and_stays_until_all_are_here(word: Message) -> None:
    line = ScriptedLine(TERMS)
    asked: list[Any] = []

    def check(terms: Any) -> None:
        asked.append(terms)
        raise DataError("No data.")

    here = Here((1,), connectors={CHIEF: Met(line, Hello.own(CLUSTER, (0,)))})
    barrier = FollowerBarrier(cast(PeerDiscovery, here), check)
    for missed in ({2: REFUSED}, {2: REFUSED}, {2: REFUSED}, {}):
        here.missed = missed
        assert barrier.step() is None
    refusal = {"code": 5, "text": "No data.", "host": here.hello.host}
    assert [message["refusal"] for message in line.sent] == [refusal] * 2 and asked == [TERMS["terms"]]
    line.coming.append(word)
    with pytest.raises(DataError, match="No data"):
        barrier.step()


def test_what_is_passed_on_names_the_one_that_said_it_first() -> None:
    passed_on = {"code": 5, "text": "No data.\n(Received from the launcher on b.)", "host": "a"}
    with pytest.raises(FormingError) as raised:
        joining(ScriptedLine({"abort": passed_on}))[0].step()
    assert str(raised.value) == passed_on["text"]


def test_that_not_all_came_in_time_is_told_apart() -> None:
    """For whoever hears it knows better itself whom it misses."""
    said = abort(LateError("The cluster did not form."), "b")
    assert said == {"abort": {"code": 3, "text": "The cluster did not form.", "host": "b", "late": True}}
    with pytest.raises(LateError, match="(?s)did not form.*from the launcher on b"):
        joining(ScriptedLine(said))[0].step()
    for other in (abort(FormingError("They do not agree."), "b"), {"abort": {**said["abort"], "late": "yes"}}):
        with pytest.raises(FormingError) as raised:
            joining(ScriptedLine(other))[0].step()
        assert type(raised.value) is FormingError


def test_a_refusal_counts_when_all_are_here_and_nothing_is_made() -> None:
    refusal = {"refusal": {"code": 5, "text": "No data.", "host": "b"}}
    refusing, late = ScriptedLine({**MEETS_ALL, **refusal}), ScriptedLine()
    here = Here((0,), followers=Present(follower(1, refusing), follower(2, late)))
    made: list[int] = []
    leader = LeaderBarrier(cast(PeerDiscovery, here), lambda: made.append(1) or GO, {})
    assert leader.step() is None
    here.followers.all[1] = follower(2, ScriptedLine(MEETS_ALL))
    with pytest.raises(FormingError, match="(?s)No data.*from the launcher on b") as raised:
        leader.step()
    assert (raised.value.exit_code, made) == (5, [])


def test_a_go_counts_that_came_before_the_chiefs_launcher_hung_up() -> None:
    barrier, here = joining(ScriptedLine({"go": GO}, ends=True))
    assert barrier.step() is not None
    assert here.connectors[CHIEF].lost == 0


@pytest.mark.parametrize("said", [LineError("no JSON"), {"go": "now"}, {"abort": "now"}, {"else": {}}, {"terms": []}])
def test_what_is_not_understood_is_no_go(said: Message | LineError) -> None:
    barrier, here = joining(ScriptedLine(said))
    assert barrier.step() is None
    assert here.connectors[CHIEF].lost == isinstance(said, LineError)
