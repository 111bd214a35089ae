from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tfdist.net.line_socket import LineBuffer, LineError, LineSocket
from tfdist.net.shared_token import Token


@pytest.fixture
def pair() -> Iterator[tuple[LineSocket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield LineSocket(ours), theirs


def test_messages_are_complete_in_whatever_pieces_they_come() -> None:
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


def test_messages_sent_before_the_end_are_received(pair: tuple[LineSocket, socket.socket]) -> None:
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


def test_sealed_lines_carry_messages_both_ways() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        token, said = Token("secret"), b"what was said"
        first, second = LineSocket(ours), LineSocket(theirs)
        first.send({"plain": 1})
        first.protect(token.seal("caller", said), token.seal("answerer", said))
        first.send({"sealed": 1})
        # What comes behind the last plain message may have been read with it.
        assert second.receive(1) == [{"plain": 1}]
        second.protect(token.seal("answerer", said), token.seal("caller", said))
        first.send({"sealed": 2})
        assert second.receive() == [{"sealed": 1}, {"sealed": 2}]
        second.send({"back": 1})
        assert first.receive() == [{"back": 1}]


@pytest.mark.parametrize("said", [b'{"a": 1}\n', b"0" * 64 + b' {"a": 1}\n', b"\n"])
def test_a_sealed_line_accepts_nothing_else(pair: tuple[LineSocket, socket.socket], said: bytes) -> None:
    line, other = pair
    token = Token("secret")
    line.protect(token.seal("caller", b""), token.seal("answerer", b""))
    other.sendall(said)
    with pytest.raises(LineError, match="seal"):
        line.receive()


def test_one_message_is_received_at_a_time_from_a_peer_that_sends_without_end(
    pair: tuple[LineSocket, socket.socket],
) -> None:
    line, other = pair
    other.setblocking(False)
    sent = 0
    with pytest.raises(BlockingIOError):
        while True:
            sent += other.send(b'{"a": 1}\n' * 1000)
    assert line.receive(1) == [{"a": 1}]
    # The rest waits with the kernel, which makes the sender wait.
    assert line.connection.recv(1 << 20)


def test_a_peer_may_be_allowed_longer_lines_than_a_stranger(pair: tuple[LineSocket, socket.socket]) -> None:
    _, other = pair
    line = LineSocket(pair[0].connection, max_bytes=100)
    message = b'{"a": "' + b"x" * 1000 + b'"}\n'
    line.allow(2000)
    other.sendall(message)
    assert len(line.receive()) == 1
    other.sendall(message)
    with pytest.raises(LineError, match="more than 100 bytes"):
        LineSocket(pair[0].connection, max_bytes=100).receive()
