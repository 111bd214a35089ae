from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tfdist.launch.lines import LineBuffer, LineError, LineSocket


@pytest.fixture
def pair() -> Iterator[tuple[LineSocket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield LineSocket(ours), theirs


def test_messages_come_out_whole_however_they_are_cut() -> None:
    data = b'{"a": 1}\n{"b": "\\n"}\n{"c"'
    for cut in range(len(data)):
        buffer = LineBuffer()
        assert buffer.feed(data[:cut]) + buffer.feed(data[cut:]) == [{"a": 1}, {"b": "\n"}]


@pytest.mark.parametrize(
    "data", [b"PRI * HTTP/2.0\r\n\r\n", b"[1]\n", b"\xff\xfe\n", b"\n", b"[" * 30000 + b"\n", b"x" * 70000]
)
def test_a_stranger_is_refused(data: bytes) -> None:
    with pytest.raises(LineError):
        LineBuffer(max_bytes=65536).feed(data)


def test_a_line_carries_messages_both_ways(pair: tuple[LineSocket, socket.socket]) -> None:
    line, other = pair
    assert line.receive() == []
    line.send({"hello": "you"})
    assert other.recv(100) == b'{"hello": "you"}\n'
    other.sendall(b'{"a": 1}\n{"b": 2}\n')
    assert line.receive(1) == [{"a": 1}]
    assert line.receive() == [{"b": 2}]


def test_last_words_are_heard_before_the_end(pair: tuple[LineSocket, socket.socket]) -> None:
    line, other = pair
    other.sendall(b'{"a": 1}\n{"b": 2}\n')
    other.close()
    line.send({"into": "the void"})
    assert line.receive(1) == [{"a": 1}]
    assert line.receive() == [{"b": 2}]
    assert line.receive() == []
    assert line.is_closed()
    line.send({"nobody": "hears"})


def test_a_full_socket_does_not_block(pair: tuple[LineSocket, socket.socket]) -> None:
    line, other = pair
    line.send({"much": "x" * 5_000_000})
    other.settimeout(5)
    received = 0
    while received < 5_000_013:
        received += len(other.recv(1 << 20))
        line.flush()
    assert received == 5_000_013
