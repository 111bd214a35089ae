"""Post to the chief: read by its subject, in its order, and never more than can be kept."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tfdist.launch.worker.launcher_channel import MOST_UNREAD, ChiefPost, LauncherChannel


def fail(value: Any) -> None:
    raise ValueError(f"no answer to {value}")


ANSWERS = {"hold": lambda value: {"begun": 7, "to": value}, "stop": lambda value: None, "dump": fail}


@pytest.fixture
def launcher() -> Iterator[tuple[socket.socket, LauncherChannel, threading.Event]]:
    ours, theirs = socket.socketpair()
    lost = threading.Event()
    channel = LauncherChannel(theirs.detach(), on_lost=lost.set, handlers=ANSWERS)
    with ours:
        yield ours, channel, lost
    watchers = [thread for thread in threading.enumerate() if thread.name == "tfdist-channel"]
    for watcher in watchers:
        watcher.join(60)
    assert not any(watcher.is_alive() for watcher in watchers)


def test_a_worker_is_done_when_it_is_released(launcher: tuple[socket.socket, LauncherChannel, threading.Event]) -> None:
    ours, channel, lost = launcher
    ours.sendall(b'{"release": true}\n')
    assert channel.finished(3, timeout=5)
    assert json.loads(ours.recv(100)) == {"finished": 3}
    ours.close()
    assert not lost.is_set()


def test_the_wait_for_the_release_is_bounded(launcher: tuple[socket.socket, LauncherChannel, threading.Event]) -> None:
    _, channel, _ = launcher
    assert not channel.finished(0, timeout=0.01)


@pytest.mark.parametrize("last_words", [b"", b'{"other": 1}\n', b"nonsense\n"])
def test_a_worker_notices_that_its_launcher_is_gone(
    launcher: tuple[socket.socket, LauncherChannel, threading.Event], last_words: bytes
) -> None:
    ours, channel, lost = launcher
    channel.watch()
    ours.sendall(last_words)
    ours.close()
    assert lost.wait(60)
    assert not channel.finished(0, timeout=0.01)


def test_a_worker_sends_its_error(launcher: tuple[socket.socket, LauncherChannel, threading.Event]) -> None:
    ours, channel, _ = launcher
    channel.failed({"message": "The disk is full"})
    assert json.loads(ours.recv(100)) == {"failed": {"message": "The disk is full"}}
    ours.close()
    channel.failed({"message": "nobody listens"})


def test_a_worker_answers(launcher: tuple[socket.socket, LauncherChannel, threading.Event]) -> None:
    ours, channel, _ = launcher
    channel.watch()
    ours.sendall(b'{"unknown": 1}\n{"stop": {}}\n{"hold": true}\n')
    assert json.loads(ours.recv(100)) == {"begun": 7, "to": True}
    ours.sendall(b'{"release": true}\n')


def test_a_handler_that_raises_does_not_end_the_watch(
    launcher: tuple[socket.socket, LauncherChannel, threading.Event], caplog: pytest.LogCaptureFixture
) -> None:
    ours, channel, lost = launcher
    channel.watch()
    logger = logging.getLogger("tfdist")
    logger.addHandler(caplog.handler)
    try:
        ours.sendall(b'{"dump": true}\n{"hold": 1}\n')
        assert json.loads(ours.recv(100)) == {"begun": 7, "to": 1}
    finally:
        logger.removeHandler(caplog.handler)
    assert "no answer to True" in caplog.text
    assert not lost.is_set()
    ours.sendall(b'{"release": true}\n')


def test_a_launcher_that_does_not_receive_does_not_block_a_beat(
    launcher: tuple[socket.socket, LauncherChannel, threading.Event],
) -> None:
    ours, channel, _ = launcher
    for step in range(10_000):
        channel.beat({"step": step, "filling": "x" * 1000})
    heard = b""
    while heard.count(b"\n") < 2:
        heard += ours.recv(65536)
    first, second = (json.loads(line)["beat"]["step"] for line in heard.split(b"\n")[:2])
    assert (first, second) == (0, 1)
    ours.close()
    channel.beat({"step": -1})


def test_a_worker_sends_a_signal(launcher: tuple[socket.socket, LauncherChannel, threading.Event]) -> None:
    ours, channel, _ = launcher
    channel.signalled(15)
    assert json.loads(ours.recv(100)) == {"signal": 15}


def letter(subject: str, number: int) -> dict[str, Any]:
    return {"subject": subject, "content": {"number": number}}


def test_what_was_told_is_read_once_by_its_subject() -> None:
    post = ChiefPost()
    for number in range(3):
        post.deliver(letter("a", number))
        post.deliver(letter("b", number))
    post.deliver({"subject": "a", "content": None})
    assert post.read("a") == [{"number": number} for number in range(3)]
    assert post.read("a") == [] and len(post.read("b")) == 3


def test_a_worker_without_a_launcher_has_no_post() -> None:
    post, sent = ChiefPost(), []
    assert not post.tell("a", {})
    post.connect(lambda told: not sent.append(told))
    assert post.tell("a", {"number": 1}) and sent == [letter("a", 1)]
    post.connect(lambda told: False)
    assert not post.tell("a", {})


def test_what_nobody_reads_does_not_grow() -> None:
    post = ChiefPost()
    for number in range(MOST_UNREAD + 5):
        post.deliver(letter("a", number))
    assert [content["number"] for content in post.read("a")][::MOST_UNREAD - 1] == [5, MOST_UNREAD + 4]
