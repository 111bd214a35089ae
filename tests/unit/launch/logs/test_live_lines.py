"""Lines that stay at the bottom of a screen."""

from __future__ import annotations

from tests.unit.screen import screen_after
from tfdist.launch.logs.live_lines import LiveLines


def test_what_is_written_stands_above_the_lines() -> None:
    live = LiveLines()
    written = live.replace([b"bar 1", b"more 1"])
    written += live.above(b"epoch 1\n")
    written += live.replace([b"bar 2"])
    written += live.above(b"two\nlines\n")
    assert screen_after(written) == ["epoch 1", "two", "lines", "bar 2"]


def test_shorter_lines_leave_nothing_of_longer_ones() -> None:
    live = LiveLines()
    written = live.replace([b"a long line", b"another"]) + live.replace([b"b", b"c"])
    assert screen_after(written) == ["b", "c"]


def test_no_lines_leave_no_trace() -> None:
    live = LiveLines()
    written = b"before\n" + live.replace([b"bar", b"more"]) + live.replace([])
    assert not live
    assert screen_after(written + b"after\n") == ["before", "after"]
    assert live.replace([]) == b""
