"""Two launchers in two network namespaces: hosts with addresses, names and faults of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.waiting import until
from tests.workers.launcher_processes import Launchers, marked
from tfdist.verify.hosts.namespace_hosts import NamespaceHost

PORT = 20_000


def command(pid: int) -> str:
    """What a process runs; nothing when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def workers(hosts: tuple[NamespaceHost, NamespaceHost], family: str = "ipv4") -> str:
    # The same port on both: these are two machines.
    return ",".join(f"{h.ipv4}:{PORT}" if family == "ipv4" else f"[{h.ipv6}]:{PORT}" for h in hosts)


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
@pytest.mark.parametrize("shared", [True, False])
def test_the_same_command_on_both_hosts_is_one_job(
    launchers: Launchers, hosts: tuple[NamespaceHost, NamespaceHost], family: str, shared: bool
) -> None:
    both = [
        launchers.start(
            folder="both" if shared else host.name,
            prefix=host.prefix,
            workers=workers(hosts, family),
            args=["*:listen"],
            show="all",
        )
        for host in hosts
    ]
    assert [each.end() for each in both] == [0, 0], [each.err for each in both]
    for index, each in enumerate(both):
        (run,) = (each.folder / "runs").iterdir()
        expected = {0, 1} if shared else {index}
        assert {path.name for path in (run / "logs").iterdir()} == {f"worker-{i}.0.log" for i in expected}


def test_a_failure_is_reported_on_the_other_host_with_its_place(
    launchers: Launchers, hosts: tuple[NamespaceHost, NamespaceHost]
) -> None:
    args = ["1:raise:ValueError boom", "*:hang"]
    both = [launchers.start(folder=host.name, prefix=host.prefix, workers=workers(hosts), args=args) for host in hosts]
    assert [each.end() for each in both] == [4, 4]
    for each in both:
        assert f"\nerror: worker 1 ({hosts[1].name}, {hosts[1].ipv4}:{PORT}, pid " in f"\n{each.err}"
        (run,) = (each.folder / "runs").iterdir()
        assert "boom" in (run / "failure.json").read_text()


def test_a_host_that_cannot_be_reached_is_named_on_both(
    launchers: Launchers, hosts: tuple[NamespaceHost, NamespaceHost]
) -> None:
    hosts[1].set_link("down")
    both = [
        launchers.start(folder=host.name, prefix=host.prefix, workers=workers(hosts), start_timeout=5, index=index)
        for index, host in enumerate(hosts)
    ]
    assert [each.end() for each in both] == [3, 3], [each.err for each in both]
    for index, each in enumerate(both):
        assert f"worker {1 - index} ({hosts[1 - index].ipv4}:{PORT}) " in each.err


def test_a_link_that_is_cut_ends_both_within_a_bound(
    launchers: Launchers, hosts: tuple[NamespaceHost, NamespaceHost]
) -> None:
    """Workers on a host that is out of reach cannot be started again, and those that are left are not: on neither."""
    marks = [launchers.folder / f"mark-{index}" for index in (0, 1)]
    args = [*(f"{index}:touch:{path}" for index, path in enumerate(marks)), "*:hang"]
    both = [
        launchers.start(folder=host.name, prefix=host.prefix, workers=workers(hosts), args=args, max_restarts=3)
        for host in hosts
    ]
    until(lambda: all(map(Path.exists, marks)))
    hosts[1].set_link("down")
    assert [each.end(60) for each in both] == [4, 4]
    assert all("is gone" in each.err and "not restarted: " in each.err for each in both), [each.err for each in both]
    for each in both:
        (run,) = (each.folder / "runs").iterdir()
        assert [log.name.split(".")[1] for log in (run / "logs").iterdir()] == ["0"]


def test_all_workers_restart_after_a_link_was_cut_for_a_moment(
    launchers: Launchers, hosts: tuple[NamespaceHost, NamespaceHost]
) -> None:
    """A worker that the other's silence ended, as TensorFlow does after seconds; launchers are patient for longer."""
    trains, cut = launchers.folder / "trains", launchers.folder / "cut"
    args = ["1@0:step:5", f"1@0:touch:{trains}", f"1@0:await:{cut}", "1@0:signal:6", "*@0:hang", "*@1:listen"]
    both = [
        launchers.start(folder=host.name, prefix=host.prefix, workers=workers(hosts), args=args, max_restarts=1)
        for host in hosts
    ]
    until(trains.exists)
    hosts[1].set_link("down")
    cut.touch()
    # The worker dies behind the cut, and its launcher cannot say so yet.
    until(lambda: not any("stand_in_worker" in command(pid) for pid in marked(both[1].mark)))
    hosts[1].set_link("up")
    assert [each.end(60) for each in both] == [0, 0], [each.err for each in both]
    assert all("worker 1 (" in each.err and "all workers start again" in each.err for each in both)


def test_a_host_without_a_route(launchers: Launchers, hosts: tuple[NamespaceHost, NamespaceHost]) -> None:
    hosts[0].ip("route", "add", "unreachable", "10.92.0.0/24")
    there = f"10.92.0.2:{PORT}"
    launcher = launchers.start(
        prefix=hosts[0].prefix, workers=f"{hosts[0].ipv4}:{PORT},{there}", start_timeout=4, index=0
    )
    assert launcher.end() == 3
    assert f"1 of 2 workers are here; waiting for {there}, no route to host\n" in launcher.err
    assert f"worker 1 ({there}) cannot be reached: No route to host" in launcher.err


def test_a_name_that_does_not_resolve(launchers: Launchers, hosts: tuple[NamespaceHost, NamespaceHost]) -> None:
    there = f"nowhere.invalid:{PORT}"
    launcher = launchers.start(
        prefix=hosts[0].prefix, workers=f"{hosts[0].ipv4}:{PORT},{there}", start_timeout=4, index=0
    )
    assert launcher.end() == 3
    # Without a name server the look-up takes its time; with one, or with none configured, it fails at once.
    assert f"worker 1 ({there}) has a name that " in launcher.err


def test_a_host_that_does_not_answer(launchers: Launchers, hosts: tuple[NamespaceHost, NamespaceHost]) -> None:
    # What arrives is answered by nobody, since the way back leads nowhere.
    hosts[1].ip("route", "add", "blackhole", f"{hosts[0].ipv4}/32")
    there = f"{hosts[1].ipv4}:{PORT}"
    launcher = launchers.start(
        prefix=hosts[0].prefix, workers=f"{hosts[0].ipv4}:{PORT},{there}", start_timeout=5, index=0
    )
    assert launcher.end() == 3
    assert f"worker 1 ({there}) does not answer within 3 s" in launcher.err


def test_a_firewall_between_two_hosts_without_the_chief_is_named_on_all(
    launchers: Launchers, three_hosts: tuple[NamespaceHost, ...]
) -> None:
    """The chief's launcher reaches both: who dials whom among the others shows it before the workers start."""
    _, second, third = three_hosts
    # What the third sends to the second is dropped there, on the way to its port and on the way back.
    third.ip("route", "add", "blackhole", f"{second.ipv4}/32")
    listed = ",".join(f"{host.ipv4}:{PORT}" for host in three_hosts)
    three = [
        launchers.start(folder=host.name, prefix=host.prefix, workers=listed, start_timeout=8) for host in three_hosts
    ]
    assert [each.end() for each in three] == [3, 3, 3], [each.err for each in three]
    for each in three:
        assert f"from {second.name}, worker 2 ({third.ipv4}:{PORT}) does not answer within 3 s" in each.err
        assert f"from {third.name}, worker 1 ({second.ipv4}:{PORT}) cannot be reached: " in each.err
