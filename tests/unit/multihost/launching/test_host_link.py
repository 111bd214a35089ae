"""A link to a program that plays ssh."""

from __future__ import annotations

import sys

import pytest

from tests.helpers.waiting import until
from tfdist.errors import UsageError
from tfdist.multihost.launching.host_link import Heard
from tfdist.multihost.launching.protocol import answer
from tfdist.multihost.ssh import SshLink

_PROGRAM = f"""
import sys
line = sys.stdin.buffer.readline()
sys.stdout.buffer.write(b"welcome\\nunfinished" + {answer("n", checked={"a": 1})!r} + b"said " + line + b"last")
sys.stderr.buffer.write(b"odd\\xff\\n")
sys.stdout.flush()
sys.stdin.read()
sys.exit(7)
"""


def test_answers_are_told_from_output() -> None:
    link = SshLink([sys.executable, "-c", _PROGRAM], "n")
    heard = Heard()
    try:
        link.send(b"hello\n")

        def hear() -> bool:
            more = link.hear()
            heard.out += more.out
            heard.err += more.err
            heard.answers += more.answers
            return link.poll() is not None

        until(lambda: hear() or len(heard.out) == 3)
        link.hang_up()
        until(hear)
        assert heard.out == [b"welcome", b"unfinished", b"said hello", b"last"]
        assert heard.answers == [{"checked": {"a": 1}}]
        assert heard.err == [b"odd\xff"] and link.said == "odd\ufffd\n"
        assert link.poll() == 7
    finally:
        link.close()


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="ssh cannot be started: /none: No such file"):
        SshLink(["/none"], "n")


def test_what_is_told_to_a_link_that_has_ended_is_lost_without_an_error() -> None:
    link = SshLink(["true"], "n")
    try:
        until(lambda: link.hear() and link.poll() == 0)
        link.send(b"x" * 100_000)
    finally:
        link.close()
