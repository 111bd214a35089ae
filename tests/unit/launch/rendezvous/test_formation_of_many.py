"""More launchers than dial one another: the chief's alone knows who is here, and tells the others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.unit.launch.rendezvous.launchers import GO, Launchers
from tfdist.cluster import Address, Cluster
from tfdist.errors import FormingError
from tfdist.net import hello
from tfdist.net.connector import Connector

SIZE = 14
SECRET = "5f0c1e-not-to-be-seen"
ALL_BUT_ONE = f"{SIZE - 1} of {SIZE} workers are here; waiting for "


@pytest.fixture
def launchers() -> Iterator[Launchers]:
    with contextlib.ExitStack() as stack:
        yield Launchers(SIZE, stack)


@pytest.mark.parametrize("token", [None, SECRET])
def test_many_launchers_form_a_cluster(launchers: Launchers, token: str | None) -> None:
    formed = launchers.form(*((index,) for index in range(SIZE)), token=token)
    assert [each.go for each in formed] == [GO] * SIZE
    assert [each.links.leads for each in formed] == [True] + [False] * (SIZE - 1)
    assert len(formed[0].links.lines) == SIZE - 1 and all(len(each.links.lines) == 1 for each in formed[1:])


@pytest.mark.parametrize("hasty", [0, 3])
def test_a_missing_worker_is_named_by_launchers_that_never_dial_it(launchers: Launchers, hasty: int) -> None:
    """Worker 9 is none of the neighbours of worker 3, which knows of it by the chief's launcher alone."""
    present = [index for index in range(SIZE) if index != 9]
    futures = [launchers.start(index, timeout=1000 if index == hasty else 1_000_000) for index in present]
    launchers.pass_until_said(f"{ALL_BUT_ONE}{launchers.cluster.workers[9]}, connection refused", *present)
    launchers.ahead += 1000
    for future in futures:
        with pytest.raises(FormingError) as raised:
            future.result(20)
        text = str(raised.value)
        assert f"1 of its {SIZE} workers did not come" in text and raised.value.exit_code == 3
        assert f"worker 9 ({launchers.cluster.workers[9]}) refuses the connection" in text


def test_without_the_chief_every_launcher_names_it(launchers: Launchers) -> None:
    present = range(1, SIZE)
    futures = [launchers.start(index, timeout=1000) for index in present]
    waiting = f"not all of the {SIZE} workers are here; waiting for {launchers.cluster.workers[0]}, connection refused"
    launchers.pass_until_said(waiting, *present)
    launchers.ahead += 1000
    for future in futures:
        with pytest.raises(FormingError) as raised:
            future.result(20)
        assert f"worker 0 ({launchers.cluster.workers[0]}) refuses the connection" in str(raised.value)


@pytest.mark.parametrize(("odd", "long"), [(0, False), (1, True), (9, False), (9, True)])
def test_another_list_of_one_launcher_ends_all_at_once(
    launchers: Launchers, monkeypatch: pytest.MonkeyPatch, odd: int, long: bool
) -> None:
    """Also where only the digests of the lists are told."""
    if long:
        monkeypatch.setattr(hello, "LONG_CHARACTERS", 0)
    other = Cluster((*launchers.cluster.workers, Address("127.0.0.1", 19_999)))
    futures = [launchers.start(i, cluster=other if i == odd else None, timeout=1000) for i in range(SIZE)]
    for future in futures:
        with pytest.raises(FormingError, match="another worker list") as raised:
            future.result(20)
        assert ("one of the workers 0 to 63" in str(raised.value)) == long


@pytest.mark.parametrize("place", [1, 7])
def test_a_launcher_that_takes_another_for_the_chief_is_told(launchers: Launchers, place: int) -> None:
    """Its list begins with another worker, at whose address nobody of the job would say that it is the chief's."""
    turned = Cluster((*launchers.cluster.workers[1:], launchers.cluster.workers[0]))
    own = turned.workers.index(launchers.cluster.workers[place])
    futures = [launchers.start(i, timeout=1000) for i in range(SIZE) if i != place]
    futures.append(launchers.start(own, cluster=turned, timeout=1000))
    for future in futures:
        with pytest.raises(FormingError, match="the workers in another order"):
            future.result(20)


def test_a_worker_that_is_started_twice_ends_all_at_once(launchers: Launchers) -> None:
    futures = [launchers.start(i, timeout=1000) for i in (*range(SIZE), 9)]
    for future in futures:
        with pytest.raises(FormingError, match="started twice"):
            future.result(20)


def test_neighbours_that_do_not_reach_each_other_are_named_on_all(
    launchers: Launchers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a firewall between them: both sides are known to all, though the chief's reaches both."""
    step = Connector.step

    def firewall(connector: Connector) -> None:
        if not (connector.index == 9 and connector._introduction.hello.local == (8,)):
            step(connector)

    monkeypatch.setattr(Connector, "step", firewall)
    futures = [launchers.start(index, timeout=1000 if index == 3 else 1_000_000) for index in range(SIZE)]
    launchers.pass_until_said(f"{SIZE} of {SIZE} workers are here; waiting for ", 0, 3, 8)
    launchers.ahead += 1000
    for future in futures:
        with pytest.raises(FormingError, match=r"from \S+, worker 9 \(\S+\) has not been tried yet"):
            future.result(20)
