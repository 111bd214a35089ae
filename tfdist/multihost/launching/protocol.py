"""Messages between `tfdist launch` and the remote end on a host: lines of JSON, on the stdin and stdout of ssh.

    launch -> host    a `HostSpec`, then {"start": {...}}, {"signal": N}, {"leave": true}, empty lines as signs of life
    host -> launch    {"here": true}, {"checked": {...}} or {"refused": {...}}, {"formed": DIR}, {"ended": CODE}

What a host says comes behind a marker, since login scripts may print before it, and `tfdist train` prints between.
The host stops all it has started when its stdin ends, or when nothing has come for `SILENCE_SECONDS`.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any, get_args

from tfdist import bounded_json
from tfdist.launch.environment import TargetKind

REMOTE_MODULE = "tfdist.multihost.remote.remote_end"
MOST_SPEC_BYTES = 4 << 20
MOST_ANSWER_BYTES = 1 << 20
SIGN_SECONDS = 10.0
"""The interval, in seconds, at which the launching host shows that it is there."""
SILENCE_SECONDS = 60.0
"""Seconds that a host waits for a sign before it takes the connection for lost."""


@dataclass(frozen=True)
class HostSpec:
    """The specification that a host is told first.

    Attributes:
        version: tfdist's on the launching host.
        nonce: A random text that marks the host's answers.
        cwd: The working directory.
        target_kind: What `target` is.
        target: What is trained, as `tfdist train` takes it.
        arguments: Of `tfdist train`, but for the cluster and the devices.
        workers: How many workers run there.
        slots: The GPUs that they may use; None for all.
        grace: Seconds in which workers may come to a step boundary when they are stopped.
        variables: What is added to the environment; secrets are in it.
        output: Where the output goes of a run that is left to itself; None for one that is watched.
        run_dir: The run directory of a run that is left to itself, or may lose hosts.
        is_expendable: Whether the run may go on without this host, so that losing it must not stop the others.
        ports: The ports of the workers there, where an earlier start has chosen them; None to choose.
    """

    version: str
    nonce: str
    cwd: str
    target_kind: TargetKind
    target: str
    arguments: tuple[str, ...]
    workers: int = 1
    slots: tuple[int, ...] | None = None
    grace: float = 30.0
    variables: dict[str, str] = field(default_factory=dict, repr=False)
    output: str | None = None
    run_dir: str | None = None
    is_expendable: bool = False
    ports: tuple[int, ...] | None = None

    @property
    def is_detached(self) -> bool:
        """True if the run outlives the connection."""
        return self.output is not None

    def to_line(self) -> bytes:
        """The message, with its newline."""
        return json.dumps(dataclasses.asdict(self)).encode() + b"\n"

    @classmethod
    def of(cls, line: bytes) -> HostSpec:
        """Reads the message.

        Raises:
            ValueError: It is not one.
        """
        said = bounded_json.parse(line, MOST_SPEC_BYTES)
        try:
            lists = {"slots": _numbers(said.get("slots")), "ports": _numbers(said.get("ports"))}
            spec = cls(**{**said, "arguments": tuple(said["arguments"]), **lists})
            spec._check()
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"it is no specification of a host: {error}") from None
        return spec

    def _check(self) -> None:
        texts: list[Any] = [self.version, self.nonce, self.cwd, self.target, *self.arguments]
        texts += [*self.variables.keys(), *self.variables.values(), self.output or "", self.run_dir or ""]
        if not all(isinstance(text, str) and "\0" not in text for text in texts):
            raise ValueError("expected texts without zeros")
        named = not any("=" in name for name in self.variables)
        if self.target_kind not in get_args(TargetKind) or not self.nonce or not named:
            raise ValueError("expected a kind of target, a nonce and names of variables")
        if not _is_count(self.workers) or not isinstance(self.grace, int | float) or not 0 < self.grace < 1e9:
            raise ValueError("expected a number of workers and of seconds")
        ports = self.ports
        if ports is not None and (len(ports) != self.workers or not all(0 < port < 65536 for port in ports)):
            raise ValueError("expected one port for each worker")


@dataclass(frozen=True)
class HostFacts:
    """The facts that a host has found, where nothing is in the way.

    Attributes:
        host: Its own name.
        boot: The id of its kernel's start; with the name it tells hosts apart that have several names for ssh.
        address: Where other hosts reach it; None where that is not known.
        ports: Free ports, one a worker, held until `tfdist train` starts.
        gpus: How many GPUs it has.
        python: The interpreter that answers.
        step: Steps of the run that are done, as its directory tells; 0 where it tells none.
    """

    host: str
    boot: str
    address: str | None
    ports: tuple[int, ...]
    gpus: int
    python: str
    step: int = 0

    @classmethod
    def of(cls, said: Any) -> HostFacts:
        """Reads what `dataclasses.asdict` has made.

        Raises:
            ValueError: It is something else.
        """
        try:
            facts = cls(**{**said, "ports": _numbers(said["ports"]) or ()})
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"these are no facts of a host: {error}") from None
        texts = (facts.host, facts.boot, facts.python, facts.address or "")
        numbers = (facts.gpus, facts.step)
        if not all(isinstance(text, str) for text in texts) or not all(isinstance(number, int) for number in numbers):
            raise ValueError("expected texts, a number of GPUs and one of steps")
        return facts


@dataclass(frozen=True)
class StartOrder:
    """The order that a host is given when all have been checked.

    Attributes:
        workers: The whole cluster, as `--workers` takes it.
        use_slots: Whether the host's slots are its GPUs.
    """

    workers: str
    use_slots: bool = False

    @classmethod
    def of(cls, said: Any) -> StartOrder:
        """Reads what `dataclasses.asdict` has made.

        Raises:
            ValueError: It is something else.
        """
        if not isinstance(said, dict) or not isinstance(said.get("workers"), str):
            raise ValueError(f"expected the list of workers. Received: {said!r:.200}")
        return cls(said["workers"], said.get("use_slots") is True)


def message(**said: Any) -> bytes:
    """A message to a host, with its newline."""
    return json.dumps(said).encode() + b"\n"


def marker(nonce: str) -> bytes:
    """Returns what stands before an answer of a host's."""
    return b"\0tfdist " + nonce.encode() + b" "


def answer(nonce: str, **said: Any) -> bytes:
    """An answer of a host's, with its marker and its newline."""
    return marker(nonce) + message(**said)


def parse_message(line: bytes) -> dict[str, Any]:
    """Reads a message or an answer.

    Raises:
        ValueError: It is none.
    """
    said = bounded_json.parse(line, MOST_SPEC_BYTES)
    if not isinstance(said, dict):
        raise ValueError(f"expected an object. Received: {said!r:.200}")
    return said


def _numbers(entries: Any) -> tuple[int, ...] | None:
    if entries is None:
        return None
    if not isinstance(entries, list) or not all(isinstance(entry, int) and entry >= 0 for entry in entries):
        raise ValueError(f"expected numbers. Received: {entries!r:.200}")
    return tuple(entries)


def _is_count(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= 1024
