from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.comparison.process_group import Command
from benchmarks.comparison.rounds import Record, order, run_rounds
from tfdist.errors import ClusterError


def test_the_order_alternates() -> None:
    assert [order(["a", "b", "c"], number) for number in range(3)] == [list("abc"), list("cba"), list("abc")]


def test_one_that_fails_drops_out_and_the_others_go_on() -> None:
    folders: list[Path] = []

    def runs(code: str):  # noqa: ANN202
        @contextlib.contextmanager
        def processes(folder: Path) -> Iterator[list[Command]]:
            assert not list(folder.iterdir())
            folders.append(folder)
            yield [Command((sys.executable, "-c", code), tuple(os.sched_getaffinity(0)))]

        return processes

    @contextlib.contextmanager
    def refused(folder: Path) -> Iterator[list[Command]]:
        raise ClusterError("no port is free")
        yield []

    reports: list[tuple[int, str, bool]] = []

    def report(number: int, name: str, record: Record) -> None:
        reports.append((number, name, record.failure is not None))

    contestants = {"good": runs("print('{\"rate\": 2}')"), "bad": runs("raise SystemExit(2)"), "refused": refused}
    records = run_rounds(contestants, 3, 60, report)
    assert reports == [
        *((0, "good", False), (0, "bad", True), (0, "refused", True)),
        *((1, "good", False), (2, "good", False)),
    ]
    assert [said[0]["rate"] for said in records["good"].said] == [2, 2, 2]
    assert records["bad"].failure == "It failed with exit code 2. It printed nothing."
    assert records["refused"].failure == "no port is free"
    assert not any(folder.exists() for folder in folders)
