from __future__ import annotations

import errno
import io
import os

import pytest

from tfdist.cluster import Cluster
from tfdist.launch.rendezvous.missing_workers import (
    BETWEEN_SECONDS,
    FIRST_SECONDS,
    Progress,
    WaitingLauncher,
    absence_lines,
    describe_outcome,
    explain_absence,
    print_progress,
    waiting_text,
)
from tfdist.net.connection_attempts import DialOutcome, DialStatus, of_errno

CLUSTER = Cluster.parse("host1:20000,host2:20000,host3:20000,host4:20000,host5:20000,host6:20000")
FOUR = Cluster(CLUSTER.workers[:4])
TWO = Cluster(CLUSTER.workers[:2])
REFUSED, TIMED_OUT = DialOutcome(DialStatus.REFUSED), DialOutcome(DialStatus.TIMED_OUT)
STRANGER, UNRESOLVED = DialOutcome(DialStatus.STRANGER), DialOutcome(DialStatus.UNRESOLVED)


@pytest.mark.parametrize(
    ("seen", "text", "brief"),
    [
        (of_errno(errno.EHOSTUNREACH), "cannot be reached: No route to host", "no route to host"),
        (of_errno(errno.ENETUNREACH), "cannot be reached: Network is unreachable", "network is unreachable"),
        (of_errno(errno.EACCES), "cannot be reached: Permission denied", "permission denied"),
        (REFUSED, "refuses the connection: no tfdist launcher waits there, or not any more", "connection refused"),
        (
            TIMED_OUT,
            "does not answer within 3 s: the host is down, or a firewall drops what is sent",
            "timed out",
        ),
        (
            DialOutcome(DialStatus.SILENT),
            "takes the connection, but says nothing for 5 s: something else listens there, or its host is overloaded",
            "something else listens there",
        ),
        (
            STRANGER,
            "takes the connection, but is no tfdist launcher: something else listens there",
            "something else listens there",
        ),
    ],
)
def test_what_was_seen_is_told_in_words(seen: DialOutcome, text: str, brief: str) -> None:
    assert describe_outcome(seen) == text
    assert waiting_text(TWO, {1: seen}, []) == f"1 of 2 workers are here; waiting for host2:20000, {brief}"


@pytest.mark.parametrize("status", DialStatus)
def test_every_outcome_has_words(status: DialStatus) -> None:
    assert describe_outcome(DialOutcome(status))
    assert not waiting_text(TWO, {1: DialOutcome(status, "detail")}, []).endswith(", ")


@pytest.mark.parametrize(
    ("cluster", "missing", "others", "text"),
    [
        (FOUR, {3: REFUSED}, [], "3 of 4 workers are here; waiting for host4:20000, connection refused"),
        (
            FOUR,
            {1: UNRESOLVED, 3: TIMED_OUT},
            [],
            "2 of 4 workers are here; waiting for host2:20000, its name does not resolve; host4:20000, timed out",
        ),
        (
            CLUSTER,
            dict.fromkeys((1, 2, 3, 4, 5), STRANGER),
            [],
            "1 of 6 workers are here; waiting for host2:20000, something else listens there; host3:20000, something "
            "else listens there; host4:20000, something else listens there; host5:20000, something else listens there; "
            "and 1 more",
        ),
        # The chief's launcher has met all, and one of them has not met another.
        (FOUR, {}, [("h2", 3)], "4 of 4 workers are here; waiting for h2 to reach host4:20000"),
        (FOUR, {}, [], "4 of 4 workers are here; waiting for them to reach one another"),
    ],
)
def test_who_is_waited_for_is_told(
    cluster: Cluster, missing: dict[int, DialOutcome], others: list[tuple[str, int]], text: str
) -> None:
    assert waiting_text(cluster, missing, others) == text


class Told:
    def __init__(self) -> None:
        self.now = 100.0
        self.lines: list[str] = []
        self.progress = Progress(self.lines.append, lambda: self.now)

    def after(self, seconds: float, text: str) -> list[str]:
        """What is said when `text` is shown so much later."""
        self.now += seconds
        self.lines.clear()
        self.progress.show(text)
        return self.lines


def test_a_cluster_that_forms_at_once_needs_no_progress() -> None:
    told = Told()
    assert told.after(0, "a") == told.after(FIRST_SECONDS / 2, "b") == []
    told.progress.all_here(4)
    assert told.lines == []


def test_changes_are_told_at_most_every_few_seconds() -> None:
    told = Told()
    assert told.after(FIRST_SECONDS, "a") == ["a"]
    assert told.after(0.1, "b") == []
    assert told.after(0.1, "c") == []
    assert told.after(BETWEEN_SECONDS, "c") == ["c"]
    assert told.after(10 * BETWEEN_SECONDS, "c") == []
    assert told.after(0, "d") == ["d"]


def test_the_end_of_a_wait_that_was_told_is_told() -> None:
    told = Told()
    told.after(FIRST_SECONDS, "a")
    told.lines.clear()
    told.progress.all_here(4)
    assert told.lines == ["all 4 workers are here"]


def test_a_terminal_that_is_gone_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb", buffering=0) as gone:
        monkeypatch.setattr("sys.stderr", io.TextIOWrapper(gone, write_through=True))
        print_progress("1 of 2 workers are here")


def test_the_error_of_a_large_cluster_is_short() -> None:
    """Each reason has some lines, however many workers there are."""
    cluster = Cluster.parse(",".join(f"a-rather-long-name-of-a-host-{n}.example.org:20000" for n in range(256)))
    seen = {index: REFUSED for index in range(1, 256) if index != 9} | {9: TIMED_OUT}
    callers = [WaitingLauncher(f"host{n}", (n,), {200: "does not answer"}) for n in range(100)]
    for missing, remote in ((seen, range(1, 256)), ({}, [200])):
        known = absence_lines(cluster, missing, came={}, callers=callers, remote=tuple(remote))
        refused = {f"10.0.0.{n}": "has no TFDIST_TOKEN" for n in range(100)}
        text = explain_absence(cluster, known, "some did not come", refused=refused, timeout=120)
        lines = text.splitlines()
        assert len(lines) < 50 and len(text) < 8000, text
        assert "example.org:20000,...,a-rather-long-name-of-a-host-255.example.org:20000 (256 workers)" in lines[-1]
        assert "  and 80 more of this kind" in lines
        if missing:
            assert "  worker 1 (a-rather-long-name-of-a-host-1.example.org:20000) refuses the connection" in text
            assert "  the same of 250 more: workers 5-8, 10-255" in lines
            assert "  worker 9 (a-rather-long-name-of-a-host-9.example.org:20000) does not answer within 3 s" in text
        else:
            assert "  from host0, worker 200 (a-rather-long-name-of-a-host-200.example.org:20000) does not" in text
