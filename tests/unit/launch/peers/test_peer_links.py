"""Links between the launchers of a job, over socket pairs."""

from __future__ import annotations

import contextlib
import select
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tfdist.launch.agent.exit_diagnosis import from_signal
from tfdist.launch.peers import peer_links
from tfdist.launch.peers.messages import AttemptEnded, Event, GiveUp, Hold, Restart, Stop
from tfdist.launch.peers.peer_links import PeerLink, PeerLinks, Silence, keep_alive
from tfdist.net.bounded_wait import Source
from tfdist.net.line_socket import LineSocket


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    monkeypatch.setattr(peer_links, "MOST_SECONDS", 10.0)
    return [100.0]


def pass_seconds(clock: list[float], silent: Silence[str], seconds: int) -> list[str]:
    """As a launcher does that looks every half a second."""
    for _ in range(2 * seconds):
        clock[0] += 0.5
        found = silent.look()
    return found


def test_one_that_says_nothing_for_too_long_is_found(clock: list[float]) -> None:
    silent = Silence(["a", "b"], lambda: clock[0])
    assert pass_seconds(clock, silent, 8) == []
    silent.hear("b")
    assert pass_seconds(clock, silent, 3) == ["a"]
    assert pass_seconds(clock, silent, 8) == ["a", "b"]
    silent.hear_all()
    assert silent.look() == []


def test_time_in_which_this_process_was_stopped_is_no_silence(clock: list[float]) -> None:
    silent = Silence(["a"], lambda: clock[0])
    clock[0] += 3600
    assert silent.look() == []
    assert pass_seconds(clock, silent, 8) == []


def test_it_is_time_to_speak_every_few_seconds(clock: list[float]) -> None:
    silent = Silence(["a"], lambda: clock[0])
    said = []
    for second in range(16):
        said += [second] * silent.is_time_to_speak()
        clock[0] += 1
    assert said == [5, 10, 15]


STOP = Stop(143, "SIGTERM to the launcher on a")
FAILED = AttemptEnded((from_signal(1, 9),))
AGAIN = Restart(1, 1.0, "why")


@pytest.fixture
def pair() -> Iterator[tuple[PeerLinks, PeerLinks]]:
    """The leader, which starts worker 0, and the follower, which starts worker 1."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200_000)  # defaults differ between machines
    leader = PeerLinks([PeerLink(LineSocket(ours), "b", (1,), ("b:1",))], leads=True, remote=(1,))
    follower = PeerLinks([PeerLink(LineSocket(theirs), "a", (0,), ("a:1",))], leads=False, remote=(0,))
    with contextlib.closing(leader), contextlib.closing(follower):
        yield leader, follower


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_a_launcher_that_hangs_up_is_lost(pair: tuple[PeerLinks, PeerLinks]) -> None:
    leader, follower = pair
    assert follower.is_connected()
    leader.close()
    (event,) = follower.events()
    assert isinstance(event, AttemptEnded) and [failure.kind for failure in event.failures] == ["lost"]
    assert not follower.is_connected()
    assert follower.events() == []


def test_a_launcher_that_says_nothing_is_lost_and_learns_of_it(
    pair: tuple[PeerLinks, PeerLinks], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_links, "MOST_SECONDS", 0.5)
    monkeypatch.setattr(peer_links, "SAY_SECONDS", 0.1)
    leader, follower = pair
    for _ in range(10):
        assert leader.events() == follower.events() == []
        time.sleep(0.1)
    found: list[Event] = []
    for _ in range(100):
        found += leader.events()
        time.sleep(0.02)
    (event,) = found
    assert isinstance(event, AttemptEnded)
    assert [failure.kind for failure in event.failures] == ["lost"]
    assert "the launcher of worker(s) 1 has not answered for" in event.failures[0].message
    assert kinds(follower.events()) == ["AttemptEnded"]


def test_a_launcher_that_hangs_up_after_the_attempt_is_not_lost(pair: tuple[PeerLinks, PeerLinks]) -> None:
    leader, follower = pair
    leader.tell(FAILED)
    leader.close()
    assert follower.events() == [FAILED]


def test_a_launcher_that_hung_up_between_two_attempts_is_lost_in_the_next(pair: tuple[PeerLinks, PeerLinks]) -> None:
    leader, follower = pair
    leader.tell(FAILED)
    leader.tell(AGAIN)
    leader.close()
    assert follower.events() == [FAILED, AGAIN]
    follower.begin_again()
    assert kinds(follower.events()) == ["AttemptEnded"]


def test_kept_events_come_once_more_and_first(pair: tuple[PeerLinks, PeerLinks]) -> None:
    leader, follower = pair
    leader.tell(GiveUp("why"))
    follower.keep([AGAIN, AttemptEnded(stop=STOP)])
    assert follower.events() == [AGAIN, AttemptEnded(stop=STOP), GiveUp("why")]
    assert follower.events() == []


@pytest.mark.parametrize("event", [AGAIN, GiveUp("why"), Hold(STOP), AttemptEnded(stop=STOP)])
def test_events_that_come_while_failures_are_joined_are_kept(pair: tuple[PeerLinks, PeerLinks], event: Event) -> None:
    leader, follower = pair
    leader.tell(FAILED)
    leader.tell(event)
    leader.close()
    assert follower.settle(FAILED.failures, 5.0) == FAILED.failures
    assert follower.events() == [event]


def test_launchers_join_their_failures(pair: tuple[PeerLinks, PeerLinks]) -> None:
    leader, follower = pair
    own = from_signal(0, 9)
    follower.settle(FAILED.failures, 0.0)
    all_failures = leader.settle([own], 5.0)
    assert {failure.index for failure in all_failures} == {0, 1}
    assert follower.settle([], 5.0) == all_failures


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
def test_the_first_failure_is_the_first_whatever_clocks_say(
    pair: tuple[PeerLinks, PeerLinks], monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    leader, follower = pair
    real = time.time
    seen = real()
    after = replace(from_signal(0, 11), time=seen)
    with monkeypatch.context() as there:
        there.setattr(time, "time", lambda: real() + ahead)
        before = replace(from_signal(1, 9), time=seen + ahead - 5)
        follower.tell(AttemptEnded((before,)))
        follower.settle([before], 0.0)
    (event,) = leader.events()
    assert isinstance(event, AttemptEnded)
    assert event.failures[0].time == pytest.approx(seen - 5, abs=2)
    first, second = leader.settle([after], 5.0)
    assert (first.index, second.index) == (1, 0)
    assert first.time == pytest.approx(seen - 5, abs=2)


def test_failures_that_nobody_knows_the_time_of_are_not_understood(pair: tuple[PeerLinks, PeerLinks]) -> None:
    leader, follower = pair
    for line in follower.lines:
        line.send({"settle": [from_signal(1, 9).to_dict()], "sent": "now"})
    assert kinds(leader.events()) == ["AttemptEnded"]
    assert not leader.is_connected()


def test_a_launcher_that_does_not_send_its_failures_is_lost(pair: tuple[PeerLinks, PeerLinks]) -> None:
    leader, _ = pair
    assert [failure.kind for failure in leader.settle((), 0.0)] == ["lost"]


def test_a_leader_that_does_not_answer_is_the_cause_of_what_broke_off_here(pair: tuple[PeerLinks, PeerLinks]) -> None:
    """As where the link is cut: each side would blame the own worker, whose collective broke off."""
    _, follower = pair
    broke_off = replace(from_signal(1, 9), kind="exception", type="WorkerFailedError")
    first, second = follower.settle([broke_off], 0.0)
    assert (first.kind, second) == ("lost", broke_off)
    assert f"the network between {socket.gethostname()} and " in first.message


def test_the_failures_of_an_attempt_are_not_those_of_the_next(pair: tuple[PeerLinks, PeerLinks]) -> None:
    leader, follower = pair
    for number in (9, 6):
        follower.settle([from_signal(1, number)], 0.0)
        all_failures = leader.settle([], 5.0)
        assert [failure.type for failure in all_failures] == [signal.Signals(number).name]
        assert follower.settle([], 5.0) == all_failures
        leader.begin_again()
        follower.begin_again()


def test_what_the_socket_does_not_take_at_once_is_sent_later(pair: tuple[PeerLinks, PeerLinks]) -> None:
    leader, follower = pair
    told = [GiveUp(f"{number} {'x' * 100_000}") for number in range(20)]
    for event in told:
        leader.tell(event)
    heard = follower.events()
    assert len(heard) < len(told)
    for _ in told:
        leader.events()
        heard += follower.events()
    assert heard == told


def test_the_others_hear_and_are_heard_after_one_is_gone() -> None:
    """Wherever it stands among them, and with every event that comes later."""
    pairs = [socket.socketpair() for _ in range(3)]
    links = [PeerLink(LineSocket(end), f"h{n}", (n,), (f"h{n}:1",)) for n, (end, _) in enumerate(pairs, 1)]
    of_chief = [PeerLink(LineSocket(end), "a", (0,), ("a:1",)) for _, end in pairs]
    leader = PeerLinks(links, leads=True, remote=(1, 2, 3))
    gone, *others = (PeerLinks([link], leads=False, remote=(0,)) for link in of_chief)
    with contextlib.ExitStack() as stack:
        for each in (leader, gone, *others):
            stack.callback(each.close)
        gone.close()
        (lost,) = leader.events()
        assert isinstance(lost, AttemptEnded) and lost.failures[0].index == 1
        for other in others:
            other.tell(GiveUp("why"))
        assert leader.events() == [GiveUp("why")] * 2
        assert len(leader.lines) == 2
        for other in others:
            (heard,) = other.events()
            assert isinstance(heard, AttemptEnded) and heard.failures[0].index == 1


def test_a_machine_that_vanished_is_noticed_within_half_a_minute() -> None:
    """By the kernel, on a line on which nothing is said as on one on which something is."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as connection:
        keep_alive(connection)
        silent, between, tries = (
            connection.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert silent + between * tries <= 30
        assert 0 < connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 30_000


@pytest.fixture
def star() -> Iterator[tuple[PeerLinks, list[PeerLinks]]]:
    """The leader and three followers."""
    pairs = [socket.socketpair() for _ in range(3)]
    links = [PeerLink(LineSocket(end), f"h{n}", (n,), (f"h{n}:1",)) for n, (end, _) in enumerate(pairs, 1)]
    leader = PeerLinks(links, leads=True, remote=(1, 2, 3))
    of_chief = [PeerLink(LineSocket(end), "a", (0,), ("a:1",)) for _, end in pairs]
    followers = [PeerLinks([link], leads=False, remote=(0,)) for link in of_chief]
    with contextlib.ExitStack() as stack:
        for each in (leader, *followers):
            stack.callback(each.close)
        yield leader, followers


def test_the_end_of_an_attempt_is_passed_on_once_however_many_tell_of_it(
    star: tuple[PeerLinks, list[PeerLinks]],
) -> None:
    """Where all workers fail together, everybody would hear of everybody."""
    leader, followers = star
    ends = [AttemptEnded((from_signal(index, 9),)) for index in (1, 2, 3)]
    for follower, end in zip(followers, ends, strict=True):
        follower.tell(end)
    heard = leader.events()
    assert sorted(event.failures[0].index for event in heard if isinstance(event, AttemptEnded)) == [1, 2, 3]
    first = heard[0]
    got = [follower.events() for follower in followers]
    assert sorted(map(len, got)) == [0, 1, 1] and all(events in ([], [first]) for events in got)
    leader.begin_again()
    followers[0].tell(ends[0])
    leader.events()
    assert followers[1].events() == [ends[0]]  # of the next attempt


@pytest.mark.parametrize("by_leader", [True, False])
def test_a_stop_is_passed_on_after_a_failure_too(star: tuple[PeerLinks, list[PeerLinks]], by_leader: bool) -> None:
    leader, (first, second, third) = star
    leader.tell(FAILED) if by_leader else first.tell(FAILED)
    leader.events()
    second.tell(AttemptEnded(stop=STOP))
    leader.events()
    assert third.events() == [FAILED, AttemptEnded(stop=STOP)]


def test_of_many_failures_the_first_ones_are_shared(pair: tuple[PeerLinks, PeerLinks]) -> None:
    leader, follower = pair
    failures = [replace(from_signal(index, 9), time=float(index)) for index in range(100)]
    follower.settle([], 0.0)
    assert len(leader.settle(failures, 5.0)) == 100
    assert [failure.index for failure in follower.settle([], 5.0)] == list(range(16))


def test_a_line_that_takes_no_more_is_ready_when_it_does_again(pair: tuple[PeerLinks, PeerLinks]) -> None:
    leader, follower = pair
    for _ in range(4):
        leader.tell(GiveUp("x" * 200_000))
    [source] = leader.sockets()
    assert not is_ready(source)
    follower.events()
    assert is_ready(source)


def is_ready(source: Source) -> bool:
    return bool(select.select([source], [], [], 0)[0])


@pytest.mark.parametrize("here", ["h", "other"])
def test_a_launcher_of_this_host_is_not_lost_by_the_network(here: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_links.socket, "gethostname", lambda: here)
    message = peer_links.lost_launcher("h", (1,), "h:2").message
    network = ", or its machine or the network between other and h failed" if here == "other" else ""
    assert message == f"the launcher of worker(s) 1 is gone: it was killed{network}"
