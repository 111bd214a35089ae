from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from tests.unit.verify.killing.traces import WHOLE, trace
from tfdist.errors import UsageError
from tfdist.verify.hosts.schedule import CHIEF, HostEvent, draw_events, draw_steps

LAYOUTS = [(hosts, least) for hosts in range(2, 6) for least in range(1, hosts + 1)]


@pytest.mark.parametrize(("hosts", "least"), LAYOUTS)
def test_enough_hosts_are_left_and_only_those_that_are_there_are_lost(hosts: int, least: int) -> None:
    for seed in range(40):
        events = draw_events(hosts, least, 5, seed)
        before = tuple(range(hosts))
        for event, present in zip(events, present_after(hosts, events), strict=True):
            assert len(present) >= least and CHIEF in present
            assert not set(event.hosts) & set(before) if event.kind == "back" else set(event.hosts) <= set(before)
            assert (CHIEF in event.hosts) == (event.kind == "chief lost")
            before = present


@pytest.mark.parametrize(("hosts", "least"), LAYOUTS)
def test_the_kinds_of_loss_are_dealt_equally(hosts: int, least: int) -> None:
    kinds = Counter(event.kind for event in draw_events(hosts, least, 6, 3) if event.kind != "back")
    dealt = {"lost": 2, "chief lost": 2, "restarted": 2} if least < hosts else {"chief lost": 3, "restarted": 3}
    assert kinds == dealt


def present_after(hosts: int, events: Iterable[HostEvent]) -> list[tuple[int, ...]]:
    """The hosts that take part after each event, ascending."""
    present = set(range(hosts))
    found = []
    for event in events:
        if event.kind == "lost":
            present -= set(event.hosts)
        elif event.kind == "back":
            present |= set(event.hosts)
        elif event.kind == "chief lost":
            present = set(range(hosts))
        found.append(tuple(sorted(present)))
    return found


def test_one_loss_shows_a_return_as_well() -> None:
    for seed in range(20):
        assert [event.kind for event in draw_events(3, 2, 1, seed)] == ["lost", "back"]


def test_one_worker_alone_may_go_on_and_several_hosts_be_lost_at_once() -> None:
    left = {len(p) for seed in range(20) for p in present_after(3, draw_events(3, 1, 3, seed))}
    assert left == {1, 2, 3}


def test_the_seed_decides_the_draw() -> None:
    def draws() -> list[tuple[HostEvent, ...]]:
        return [draw_events(4, 2, 4, seed, cut=True) for seed in range(9)]

    assert draws() == draws()
    assert len(set(draws())) > 4


def test_links_are_cut_where_that_is_asked_for() -> None:
    for seed in range(9):
        losses = [event for event in draw_events(3, 2, 4, seed, cut=True) if event.kind != "back"]
        assert sum(event.is_cut for event in losses) == 2
        assert not any(event.is_cut for event in draw_events(3, 2, 4, seed))


@pytest.mark.parametrize("seed", range(20))
def test_every_start_of_the_workers_has_a_checkpoint_of_its_own(seed: int) -> None:
    steps = draw_steps(WHOLE.chief, 3, seed)
    assert [(step - 1) // 3 * 3 for step in steps] == [3, 6, 9]
    assert draw_steps(WHOLE.chief, 3, seed) == steps


def test_a_run_that_is_too_short_is_refused() -> None:
    with pytest.raises(UsageError, match="that is 2 losses and returns.*Received: 1, in 6 steps. Give fewer --kills"):
        draw_steps(trace(ended=6), 2, 1)
    with pytest.raises(UsageError, match="Received: none, in 3 steps"):
        draw_steps(trace(ended=3), 1, 1)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (HostEvent("lost", (2,)), "host 2 is lost"),
        (HostEvent("lost", (1, 2), is_cut=True), "hosts 1, 2 are lost (link cut)"),
        (HostEvent("back", (1, 2)), "hosts 1, 2 are back"),
        (HostEvent("restarted", (1,)), "host 1 is lost and starts again"),
        (HostEvent("chief lost", (0,)), "host 0, the chief's, is lost; all start again"),
    ],
)
def test_events_in_words(event: HostEvent, said: str) -> None:
    assert event.text == said
