"""The watch over a launch, with links that say what a test has scripted."""

from __future__ import annotations

import dataclasses
import io
import itertools
from collections.abc import Collection, Iterator

import pytest

from tfdist.launch.elastic.follower import WITHOUT_CHIEF
from tfdist.launch.signals import Signals
from tfdist.multihost.hosts import Host
from tfdist.multihost.launching import host_group, run_watch
from tfdist.multihost.launching.host_group import HostGroup, HostState
from tfdist.multihost.launching.host_launch import told
from tfdist.multihost.launching.host_link import Heard, HostLink, HostProblem, Stream
from tfdist.multihost.launching.output_display import OutputDisplay
from tfdist.multihost.launching.protocol import HostFacts
from tfdist.multihost.launching.run_watch import RunWatch
from tfdist.multihost.launching.start_again import ChiefRestarts, ElasticLaunch, HostReturns, StartAgain


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is said is there already."""
    monkeypatch.setattr(host_group, "_PAUSE", 0.0)


class ScriptedLink(HostLink):
    """A host that says one thing after another, and then nothing."""

    def __init__(self, *script: Heard) -> None:
        super().__init__("nonce")
        self._script = list(script)

    def hear(self, ready: Collection[int] | None = None) -> Heard:
        return self._script.pop(0) if self._script else Heard()

    def sources(self) -> list[Stream]:
        return []

    def poll(self) -> int | None:
        return None

    def explain_loss(self) -> HostProblem:
        raise AssertionError("it is not lost")

    def hang_up(self) -> None:
        pass

    def close(self) -> None:
        pass


def watched(*scripts: tuple[Heard, ...]) -> tuple[int, str]:
    """The exit code of an elastic launch, and what it prints on stderr."""
    names = [f"h{place + 1}" for place in range(len(scripts))]
    err = io.BytesIO()
    with Signals() as signals, HostGroup([Host(name) for name in names], signals) as group:
        for host, script in zip(group.hosts, scripts, strict=True):
            host.link, host.state = ScriptedLink(*script), HostState.RUNNING
        code = RunWatch(group, OutputDisplay(names, err, err), signals, 1.0, is_elastic=True).run()
    return code, err.getvalue().decode()


def ended(code: int) -> Heard:
    return Heard(answers=[{"ended": code}])


def test_a_host_that_is_done_before_the_first_one_is_no_loss() -> None:
    assert watched((Heard(), ended(0)), (ended(0),)) == (0, "")


def test_a_host_that_fails_while_the_others_go_on_reports_at_once() -> None:
    report = Heard(err=[b"error: worker 1 failed: boom"])
    code, err = watched((Heard(), Heard(), ended(0)), (report, ended(4)))
    assert code == 0
    assert err.splitlines() == [
        "h2: error: worker 1 failed: boom",
        "warning: h2 has ended with exit code 4; the others go on where --min-workers lets them",
    ]


def test_what_all_hosts_refuse_is_no_loss_of_one() -> None:
    report = Heard(err=[b"error: --min-workers must be more than half of the list"])
    assert watched((Heard(), Heard(), Heard(), report, ended(2)), (report, ended(2))) == (2, "")


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_host_that_refuses_while_the_others_go_on_is_told_of(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a moment, or when all is over."""
    monkeypatch.setattr(run_watch, "REFUSED_SECONDS", seconds)
    report = Heard(err=[b"error: was given other options than the chief's host"])
    code, err = watched((*[Heard()] * 5, Heard(err=[b"trains"]), ended(0)), (report, ended(2)))
    told = [
        "h2: error: was given other options than the chief's host",
        "warning: h2 has ended with exit code 2; the others go on where --min-workers lets them",
    ]
    assert (code, err.splitlines()) == (0, [*told, "h1: trains"] if seconds == 0 else ["h1: trains", *told])


def test_a_run_that_is_left_is_called_as_the_user_calls_ssh() -> None:
    with Signals() as signals, HostGroup([Host("h1")], signals) as group:
        chief = group.hosts[0]
        chief.facts = HostFacts("a", "boot-a", None, (), 0, "/python")
        chief.formed = "/runs/a"
        text = told(group, chief, ("ssh", "-F", "my config"))
    assert "  watch it: ssh -F 'my config' h1 '/python -m tfdist status /runs/a'\n" in text
    assert "  stop it:  ssh -F 'my config' h1 '/python -m tfdist stop /runs/a'\n" in text


class Hosts:
    """An elastic launch whose hosts say, in each of their connections, what a test has scripted."""

    def __init__(self, *connections: tuple[tuple[Heard, ...], ...], rejoin: float = 60.0, restarts: int = 3) -> None:
        self.names = [f"h{place + 1}" for place in range(len(connections))]
        self.made = {name: iter(scripts) for name, scripts in zip(self.names, connections, strict=True)}
        self.options = ElasticLaunch("runs/a", (), rejoin, restarts)
        # A second passes with each look at the clock, so that nothing is waited for.
        self.ticks: Iterator[float] = itertools.count(0.0, 1.0)

    def connect(self, host: Host) -> HostLink:
        link = ScriptedLink(*next(self.made[host.name], ()))
        link.send = self.sent[host.name].append  # type: ignore[method-assign]
        return link

    def run(self) -> tuple[int, list[str]]:
        """The exit code, and what is said."""
        err = io.BytesIO()
        display = OutputDisplay(self.names, err, err)
        self.sent: dict[str, list[bytes]] = {name: [] for name in self.names}
        with Signals() as signals, HostGroup([Host(name) for name in self.names], signals) as group:
            for host in group.hosts:
                host.link, host.state = self.connect(host.host), HostState.RUNNING
            returns = HostReturns(group, self.connect, no_answer, 1e9, display.say, lambda: next(self.ticks))
            again = StartAgain(returns, self.options, {"workers": "w"}, lambda: next(self.ticks))
            watch = RunWatch(group, display, signals, 1.0, is_elastic=True, again=again)
            code = watch.run()
        said = err.getvalue().decode().splitlines()
        return code, [*said, watch.cause.text] if watch.cause is not None and watch.cause.text else said

    def starts(self, name: str) -> int:
        return sum(b'"start"' in data for data in self.sent[name])


def no_answer(host: Host, link: HostLink, code: int | None) -> HostProblem:
    return HostProblem("does not answer")


def checked(step: int = 0) -> Heard:
    facts = HostFacts("a", "boot-a", None, (20000,), 0, "/python", step)
    return Heard(answers=[{"checked": {**dataclasses.asdict(facts), "ports": [20000]}}])


def refused(what: str) -> Heard:
    return Heard(answers=[{"refused": {"what": what, "code": 2}}])


def test_a_host_that_is_lost_is_started_again_until_it_can() -> None:
    waits, taken = tuple(Heard() for _ in range(200)), (refused("has a port that is taken."),)
    hosts = Hosts(
        ((*waits, ended(0)),),
        ((ended(137),), taken, taken, (checked(), ended(0))),
    )
    code, said = hosts.run()
    assert (code, hosts.starts("h2")) == (0, 1)
    assert said == [
        "warning: h2 has ended with exit code 137; the others go on where --min-workers lets them",
        "h2 has a port that is taken; it is tried again while the run lasts",
        "h2 is there again: its part of the run starts anew",
    ]


@pytest.mark.parametrize("code", [0, 2, 5, 130, 143])
def test_a_host_that_was_told_to_end_or_would_fail_again_is_left_alone(code: int) -> None:
    hosts = Hosts(((*(Heard() for _ in range(50)), ended(0)),), ((ended(code),), (checked(),)))
    assert hosts.run()[0] == 0
    assert hosts.starts("h2") == 0


def test_all_start_again_when_the_chiefs_host_is_there_again() -> None:
    """The others have ended by themselves, and who comes late follows."""
    alone = Heard(err=[b"error: Without the chief no worker goes on"])
    trains = (*(Heard() for _ in range(40)), ended(0))
    hosts = Hosts(
        ((ended(137),), (checked(12), *trains)),
        ((alone, ended(4)), (checked(), *trains)),
        ((Heard(), alone, ended(4)), (refused("is not ready."),), (checked(), ended(0))),
    )
    code, said = hosts.run()
    assert (code, [hosts.starts(name) for name in hosts.names]) == (0, [1, 1, 1])
    assert said[:2] == [
        "warning: h1, which has the chief, has ended with exit code 137; the others end, and then all start again",
        "h3 is not ready; it is tried again while the run lasts",
    ]
    assert "h1 is there again: the run starts anew on all hosts, after step 12 (restart 1 of 3; progress" in said[2]
    assert not any("Without the chief" in line for line in said)


def test_a_host_that_has_lost_the_chief_before_the_launch_has_is_no_other_loss() -> None:
    alone = Heard(err=[f"error: {WITHOUT_CHIEF}: it is gone".encode()])
    trains = (*(Heard() for _ in range(40)), ended(0))
    cut_off = (*(Heard() for _ in range(3)), ended(137))
    hosts = Hosts((cut_off, (checked(), *trains)), ((alone, ended(4)), (checked(), *trains)))
    code, said = hosts.run()
    assert (code, hosts.starts("h2"), said[0]) == (0, 1, "warning: h2 has lost the launcher of h1, and has ended")


def test_a_chiefs_host_that_does_not_come_back_is_waited_for_so_long() -> None:
    never = tuple((refused("has no disk."),) for _ in range(50))
    code, said = Hosts(((ended(137),), *never), ((ended(4),), (checked(),)), rejoin=30.0).run()
    assert code == 4
    assert said[-1] == (
        "error: h1, which has the chief, was lost, and is not back after 30 s (--rejoin-timeout). The run has ended on "
        "all hosts. The same command with --resume auto --run-dir runs/a goes on where it was."
    )


def test_a_chief_that_is_lost_again_and_again_without_progress_ends_the_run() -> None:
    again = ((checked(7), ended(139)),) * 5
    code, said = Hosts(((ended(139),), *again), ((ended(4),), *(((checked(), ended(4)),) * 5)), restarts=2).run()
    assert code == 4
    assert "was lost after 2 restarts without progress (--max-restarts 2)" in said[-1]


def test_a_chief_whose_launcher_decides_or_that_may_not_restart_ends_the_run() -> None:
    for code in (3, 4, 130, 143):
        hosts = Hosts(((ended(code),), (checked(),)), ((ended(code),),))
        assert (hosts.run()[0], hosts.starts("h1")) == (code, 0)
    hosts = Hosts(((ended(137),), (checked(),)), ((ended(4),),), restarts=0)
    assert (hosts.run()[0], hosts.starts("h1")) == (137, 0)


def test_restarts_are_counted_from_the_last_progress() -> None:
    restarts = ChiefRestarts(2)
    used = []
    for step in (5, 5, 6, 6):
        following = restarts.next(step)
        assert following is not None
        restarts = following
        used.append(restarts.used)
    assert used == [1, 2, 1, 2]
    assert restarts.next(6) is None and ChiefRestarts(0).next(9) is None
