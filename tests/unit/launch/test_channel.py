from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import pytest

from tfdist.launch.channel import WorkerChannel


@pytest.fixture
def launcher() -> Iterator[tuple[socket.socket, WorkerChannel, threading.Event]]:
    ours, theirs = socket.socketpair()
    lost = threading.Event()
    channel = WorkerChannel(theirs.detach(), on_lost=lost.set)
    with ours:
        yield ours, channel, lost
    assert channel._watcher is None or not (channel._watcher.join(5), channel._watcher.is_alive())[1]
    channel._socket.close()


def test_a_worker_is_done_when_it_is_released(launcher: tuple[socket.socket, WorkerChannel, threading.Event]) -> None:
    ours, channel, lost = launcher
    ours.sendall(b'{"release": true}\n')
    assert channel.finished(3, timeout=5)
    assert json.loads(ours.recv(100)) == {"finished": 3}
    ours.close()
    assert not lost.is_set()


def test_a_worker_does_not_wait_for_ever(launcher: tuple[socket.socket, WorkerChannel, threading.Event]) -> None:
    _, channel, _ = launcher
    assert not channel.finished(0, timeout=0.01)


@pytest.mark.parametrize("last_words", [b"", b'{"other": 1}\n', b"nonsense\n"])
def test_a_worker_learns_that_its_launcher_is_gone(
    launcher: tuple[socket.socket, WorkerChannel, threading.Event], last_words: bytes
) -> None:
    ours, channel, lost = launcher
    channel.watch()
    ours.sendall(last_words)
    ours.close()
    assert lost.wait(5)
    assert not channel.finished(0, timeout=0.01)


def test_a_worker_tells_of_its_error(launcher: tuple[socket.socket, WorkerChannel, threading.Event]) -> None:
    ours, channel, _ = launcher
    channel.failed({"message": "The disk is full"})
    assert json.loads(ours.recv(100)) == {"failed": {"message": "The disk is full"}}
    ours.close()
    channel.failed({"message": "nobody listens"})
