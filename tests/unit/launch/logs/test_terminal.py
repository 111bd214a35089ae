"""Lines that stay at the bottom of a screen."""

from __future__ import annotations

import os
import pty
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.screen import screen_after, shown, shown_until
from tfdist.launch.logs.line_splitter import CharacterSplitter, ScreenSplitter
from tfdist.launch.logs.terminal import STDERR, STDOUT, LiveLines, Terminal, keeps_bars


class Screen:
    """A pseudo-terminal: stdout and stderr of one program on one screen."""

    def __init__(self) -> None:
        self.master, self._slave = pty.openpty()
        self.streams = {n: os.fdopen(os.dup(self._slave), "wb", 0) for n in (STDOUT, STDERR)}

    def text(self, lines: int) -> str:
        """What is shown, up to the end of so many lines."""
        return shown(self.master, lines)

    def close(self) -> None:
        for stream in self.streams.values():
            stream.close()
        os.close(self._slave)
        os.close(self.master)


@pytest.fixture
def screen() -> Iterator[Screen]:
    made = Screen()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("options", "kind"),
    [({}, CharacterSplitter), ({"prefix": True}, ScreenSplitter), ({"whole_lines": True}, ScreenSplitter)],
)
def test_only_a_shared_terminal_waits_for_whole_lines(options: dict[str, bool], kind: type) -> None:
    assert isinstance(Terminal(None, **options).splitter(), kind)


def test_a_message_of_the_launcher_is_not_written_into_a_progress_bar(screen: Screen) -> None:
    terminal = Terminal(screen.streams)
    terminal.write(0, STDOUT, b"50%|###")
    assert terminal.say("worker 1 is slow")
    assert terminal.say("still")
    assert screen.text(3) == "50%|###\nworker 1 is slow\nstill\n"


def test_an_empty_message_shows_nothing(screen: Screen) -> None:
    terminal = Terminal(screen.streams)
    assert terminal.say("") and terminal.say("over")
    assert screen.text(1) == "over\n"


def test_output_and_messages_stand_above_a_bar(screen: Screen) -> None:
    terminal = Terminal(screen.streams, whole_lines=True)
    terminal.draw([b"bar 1", b"more 1"])
    terminal.write(0, STDOUT, b"epoch 1\n")
    terminal.draw([b"bar 2", b"more 2"])
    terminal.write(1, STDERR, b"oh\n")
    assert terminal.say("worker 1 is slow")
    terminal.draw(())
    assert terminal.say("over")
    written = shown_until(screen.master, "over\n")
    assert screen_after(written.encode()) == ["epoch 1", "oh", "worker 1 is slow", "over"]


def test_stdout_that_goes_elsewhere_has_no_bar(screen: Screen) -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb", 0) as file, os.fdopen(write, "wb", 0) as out:
        terminal = Terminal({STDOUT: out, STDERR: screen.streams[STDERR]}, whole_lines=True)
        terminal.draw([b"bar"])
        terminal.write(0, STDOUT, b"epoch 1\n")
        assert file.read(100) == b"epoch 1\n"


def test_a_bar_does_not_begin_inside_a_line(screen: Screen) -> None:
    terminal = Terminal(screen.streams)
    terminal.write(0, STDOUT, b"50%|###")
    terminal.draw([b"bar"])
    assert terminal.say("over")
    assert screen_after(screen.text(2).encode()) == ["50%|###", "over", "bar"]


def test_a_bar_waits_for_nobody() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb"), os.fdopen(write, "wb", 0) as full:
        os.set_blocking(write, False)
        while full.write(b"x" * 65536):
            pass
        Terminal({STDERR: full}).draw([b"bar"])
    Terminal({STDERR: full}).draw([b"bar"])  # closed
    Terminal(None).draw([b"bar"])


def test_a_bar_needs_a_screen_that_nobody_else_writes_on(screen: Screen, tmp_path: Path) -> None:
    out, err = screen.streams[STDOUT], screen.streams[STDERR]
    read, write = os.pipe()
    with os.fdopen(read, "rb"), os.fdopen(write, "wb", 0) as pipe, (tmp_path / "out").open("wb", 0) as file:
        assert keeps_bars(out, err) and keeps_bars(file, err) and keeps_bars(None, err)
        assert not keeps_bars(pipe, err)  # `| tee log`
        assert not keeps_bars(out, file) and not keeps_bars(out, pipe) and not keeps_bars(out, None)


def test_the_width_of_what_is_no_screen_is_80(screen: Screen) -> None:
    assert Terminal(None).columns() == 80
    assert Terminal(screen.streams).columns() == 80  # a pseudo-terminal that was given no size


def test_stdout_that_goes_elsewhere_leaves_no_empty_line(screen: Screen) -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb"), os.fdopen(write, "wb", 0) as file:
        terminal = Terminal({STDOUT: file, STDERR: screen.streams[STDERR]})
        terminal.write(0, STDOUT, b"50%|###")
        assert terminal.say("worker 1 is slow")
        assert screen.text(1) == "worker 1 is slow\n"
        terminal.write(0, STDERR, b"warn")
        assert terminal.say("again")
        assert screen.text(2) == "warn\nagain\n"


def test_a_terminal_that_accepts_nothing_holds_up_nobody() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as reader, os.fdopen(write, "wb", 0) as full:
        os.set_blocking(write, False)
        while full.write(b"x" * 65536):
            pass
        os.set_blocking(write, True)
        terminal = Terminal({STDERR: full})
        assert not terminal.say("lost")
        # Nor does one on which a worker's output waits, with the lock.
        waiting = threading.Thread(target=terminal.write, args=(0, STDERR, b"y"), daemon=True)
        waiting.start()
        assert not terminal.say("lost")
        while waiting.is_alive():
            os.read(reader.fileno(), 65536)
            waiting.join(0.01)


def test_a_terminal_that_is_gone_shows_nothing() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb", 0) as gone:
        terminal = Terminal({STDERR: gone})
        assert not terminal.say("lost")
        assert not terminal.say("lost")
    assert not Terminal(None).say("lost")


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
