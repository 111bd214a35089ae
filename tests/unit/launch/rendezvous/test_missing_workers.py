from __future__ import annotations

import io
import os

import pytest

from tfdist.cluster import Cluster
from tfdist.launch.rendezvous.progress import BETWEEN_SECONDS, FIRST_SECONDS, Progress, print_progress, waiting_text
from tfdist.net.sighting import REFUSED, STRANGER, UNRESOLVED, Sighting, timed_out

CLUSTER = Cluster.parse("host1:20000,host2:20000,host3:20000,host4:20000,host5:20000,host6:20000")
FOUR = Cluster(CLUSTER.workers[:4])


@pytest.mark.parametrize(
    ("cluster", "missing", "others", "text"),
    [
        (FOUR, {3: REFUSED}, [], "3 of 4 workers are here; waiting for host4:20000, connection refused"),
        (
            FOUR,
            {1: UNRESOLVED, 3: timed_out(3)},
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
    cluster: Cluster, missing: dict[int, Sighting], others: list[tuple[str, int]], text: str
) -> None:
    assert waiting_text(cluster, missing, others) == text


class Told:
    def __init__(self) -> None:
        self.now = 100.0
        self.lines: list[str] = []
        self.progress = Progress(self.lines.append, lambda: self.now)

    def after(self, seconds: float, text: str) -> list[str]:
        """What is said by a launcher that sees `text` so much later."""
        self.now += seconds
        self.lines.clear()
        self.progress.show(text)
        return self.lines


def test_a_cluster_that_forms_at_once_needs_no_word() -> None:
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


def test_who_was_told_of_the_waiting_is_told_of_its_end() -> None:
    told = Told()
    told.after(FIRST_SECONDS, "a")
    told.lines.clear()
    told.progress.all_here(4)
    assert told.lines == ["all 4 workers are here"]


def test_a_terminal_that_is_gone_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb", buffering=0) as gone:
        monkeypatch.setattr("sys.stderr", io.TextIOWrapper(gone, write_through=True))
        print_progress("1 of 2 workers are here")
