"""Link to one host: what it is told, and what comes from it, by whatever connection; and the problems of hosts."""

from __future__ import annotations

import abc
import contextlib
import os
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfdist.errors import FormingError, TfdistError, UsageError
from tfdist.multihost.launching.protocol import MOST_ANSWER_BYTES, marker, parse_message
from tfdist.net.bounded_wait import Source as Stream

_SHOWN = 8
_READ_BYTES = 65536
_MOST_KEPT = 16_384
"""Characters of stderr that are kept to explain a failure."""


@dataclass(frozen=True)
class HostProblem:
    """The reason why a launch cannot use a host, or has lost it.

    Attributes:
        what: What is wrong, as it follows the host's name: "refuses the connection".
        remedy: What to do; empty where `what` says it.
        code: The exit code of `tfdist` that belongs to it.
    """

    what: str
    remedy: str = ""
    code: int = FormingError.exit_code


def launch_error(problems: Mapping[str, HostProblem], of: int) -> TfdistError:
    """The error of a launch that cannot start.

    Args:
        problems: Host -> what is wrong with it; at least one.
    """
    common = Counter(problem.what for problem in problems.values())
    grouped: dict[tuple[str, str], list[str]] = {}
    for host, problem in problems.items():
        # What differs by the host's own name alone is the same, unless it is the same to the letter for several.
        is_common = common[problem.what] > 1
        what = problem.what if is_common else problem.what.replace(host, "{host}")
        grouped.setdefault((what, problem.remedy.replace(host, "{host}")), []).append(host)
    lines = [_line(what, remedy, hosts) for (what, remedy), hosts in grouped.items()]
    begins = f"{len(problems)} of {of} hosts cannot be used, and nothing was started:"
    text = f"{lines[0]} Nothing was started." if len(lines) == 1 else "\n  ".join([begins, *lines])
    # A host that is out of reach is the graver one: usage can be mended from here.
    kind = UsageError if all(problem.code == UsageError.exit_code for problem in problems.values()) else FormingError
    return kind(text)


def _line(what: str, remedy: str, hosts: list[str]) -> str:
    end = f" {remedy.replace('{host}', hosts[0])}." if remedy else ""
    # One sentence for many: "h1, h2: refuses the connection."
    separator = ":" if len(hosts) > 1 else ""
    return f"{names(hosts)}{separator} {what.replace('{host}', hosts[0])}.{end}"


def names(hosts: Iterable[str]) -> str:
    """Hosts for a message, of many the first."""
    listed = list(hosts)
    return ", ".join(listed[:_SHOWN]) + (f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")


@dataclass
class Heard:
    """The data that came from a host at one time.

    Attributes:
        out: Complete lines of stdout, answers left out.
        err: Complete lines of stderr.
        answers: The remote end's answers.
    """

    out: list[bytes] = field(default_factory=list)
    err: list[bytes] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)


class HostLink(abc.ABC):
    """The two ends of a conversation with a remote end: what it says, its output and errors, and what it is told.

    Args:
        nonce: Marks the host's answers.
    """

    def __init__(self, nonce: str) -> None:
        self._marker = marker(nonce)
        self._in: Stream | None = None
        self._out: Stream | None = None
        self._err: Stream | None = None
        self._rest: dict[Stream, bytes] = {}
        self._open: set[Stream] = set()
        self._outgoing = b""
        self.said = ""
        """The end of what came on stderr."""

    def attach(self, said: Stream, out: Stream, err: Stream) -> None:
        """Connects it with the host's stdin, stdout and stderr."""
        self._in, self._out, self._err = said, out, err
        self._rest = {out: b"", err: b""}
        self._open = {out, err}
        for stream in (said, out, err):
            os.set_blocking(stream.fileno(), False)
        self.send(b"")

    @abc.abstractmethod
    def poll(self) -> int | None:
        """Returns what its program exited with, when all that the host said has been heard; None before."""

    @abc.abstractmethod
    def explain_loss(self) -> HostProblem:
        """Returns why it ended while the host's run went on."""

    def failure_of_program(self) -> HostProblem | None:
        """Returns what became of a program that holds all hosts together, and has failed while they run; None where it
        has not.

        They may still say how they ended, and that somebody has stopped them.
        """
        return None

    @abc.abstractmethod
    def hang_up(self) -> None:
        """Ends the host's stdin, at which it stops what it runs."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends it; afterwards nothing of it is left."""

    def sources(self) -> list[Stream]:
        """Returns what to wait for."""
        return list(self._open)

    def send(self, data: bytes) -> None:
        """Sends what can be sent now, and keeps the rest for the next call."""
        self._outgoing += data
        # The host may be gone; that is noticed by its output.
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError, ValueError):
            while self._outgoing and self._in is not None:
                self._outgoing = self._outgoing[os.write(self._in.fileno(), self._outgoing) :]

    def hear(self, ready: Collection[int] | None = None) -> Heard:
        """Returns what has come since the last call; with `ready`, on those of its descriptors that are in there."""
        heard = Heard()
        for pipe in list(self._open):
            if ready is not None and pipe.fileno() not in ready:
                continue
            data = self._read(pipe)
            *lines, self._rest[pipe] = (self._rest[pipe] + data).split(b"\n")
            if len(self._rest[pipe]) > MOST_ANSWER_BYTES or (pipe not in self._open and self._rest[pipe]):
                lines.append(self._rest[pipe])
                self._rest[pipe] = b""
            if pipe is self._err:
                heard.err += lines
                self.said = (self.said + data.decode(errors="replace"))[-_MOST_KEPT:]
            else:
                self._sort(lines, heard)
        return heard

    def _sort(self, lines: list[bytes], heard: Heard) -> None:
        for line in lines:
            before, found, answer = line.partition(self._marker)
            if before or not found:
                heard.out.append(before)
            if found:
                with contextlib.suppress(ValueError):
                    heard.answers.append(parse_message(answer))

    def _read(self, pipe: Stream) -> bytes:
        data = b""
        while True:
            try:
                more = os.read(pipe.fileno(), _READ_BYTES)
            except BlockingIOError:
                return data
            except OSError:
                more = b""  # a connection that was reset
            if not more:
                self._open.discard(pipe)
                return data
            data += more
            if len(data) > MOST_ANSWER_BYTES:
                return data


def words_of(text: str, expected: str) -> tuple[str, ...]:
    """The words of a command that an option has; `expected` says what that expects.

    Raises:
        UsageError: It has none, or a quote without an end.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{expected} ({error}). Received: {text!r}") from None
    if not words:
        raise UsageError(f"{expected}. Received: {text!r}")
    return tuple(words)
