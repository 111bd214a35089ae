"""Driving a job: hears the launchers of all nodes until the last has ended, and says what came of it."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tfdist.errors import TfdistError, WorkerFailedError
from tfdist.launch.signals import Signals
from tfdist.ray.job.placement import NodeWorkers

_STDOUT, _STDERR = 1, 2
_MOST_LINES = 1000
_KILLED = 9
_CONNECT_SECONDS = 3.0
_AT_ONCE = 32
_LOOK_SECONDS = 0.5
_ANSWER_SECONDS = 60.0
"""Seconds that an actor may take to come up, and to answer."""
_SILENT_SECONDS = 90.0
"""After how long without an answer an actor is taken for lost; Ray itself notices a lost node in 15 to 60 s."""
_END_SECONDS = 60.0
"""Seconds that the other launchers may take to end, besides the grace of their workers, once one has."""
_MOST_REASON = 300
_UNAVAILABLE_SECONDS = 10.0
"""Seconds for which an actor that Ray calls unavailable is asked again: until Ray says whether it is dead."""
_AGAIN_SECONDS = 0.2
NODE_DIED = "the node died, or cannot be reached"


class OwnStreams:
    """This process's stdout and stderr, as they are when it is made."""

    def __init__(self) -> None:
        self._streams: dict[int, Any] = {_STDOUT: sys.stdout, _STDERR: sys.stderr}

    def write(self, number: int, data: bytes) -> None:
        """Writes to stdout (1) or stderr (2)."""
        stream = self._streams[number]
        # A stream that is gone must not end a training.
        with contextlib.suppress(OSError, ValueError):
            buffer = getattr(stream, "buffer", None)
            if buffer is None:
                stream.write(data.decode(errors="replace"))
            else:
                buffer.write(data)
            stream.flush()


class NodeOutput:
    """Writes what one launcher wrote to this process's streams.

    Args:
        name: What its lines begin with; None for the chief's, which are written as they come, bars and all.
    """

    def __init__(self, streams: OwnStreams, name: str | None) -> None:
        self._streams = streams
        self._head = None if name is None else f"[{name}] ".encode(errors="replace")
        self._begun = {_STDOUT: b"", _STDERR: b""}
        self.errors: deque[bytes] = deque(maxlen=_MOST_LINES)
        """The last lines of its stderr."""

    def write(self, number: int, data: bytes) -> None:
        """Takes what it wrote to stdout (1) or stderr (2)."""
        if self._head is None:
            self._streams.write(number, data)
        *lines, self._begun[number] = (self._begun[number] + data).split(b"\n")
        self._take(number, lines)

    def end(self) -> None:
        """It has ended: what it has begun is a line."""
        for number, line in self._begun.items():
            self._take(number, [line] if line else [])
        self._begun = {_STDOUT: b"", _STDERR: b""}

    def tell_errors(self, told: Collection[bytes]) -> None:
        """Writes what it wrote to stderr, but for lines that were told."""
        self._tell(_STDERR, [line for line in self.errors if line not in told])

    def _take(self, number: int, lines: Iterable[bytes]) -> None:
        if number == _STDERR:
            self.errors.extend(lines)
        else:
            self._tell(number, lines)

    def _tell(self, number: int, lines: Iterable[bytes]) -> None:
        if self._head is not None:
            self._streams.write(number, b"".join(self._head + line + b"\n" for line in lines))


@dataclass(frozen=True)
class Ending:
    """The outcome of a machine's launcher.

    Attributes:
        machine: Its workers and where they were.
        code: Its exit code, negative for a signal; None where it was lost.
        lost: Why it was lost, for people; empty where it was not.
    """

    machine: NodeWorkers
    code: int | None
    lost: str = ""


def exit_code(endings: Sequence[Ending], stopped: int | None) -> int:
    """The exit code of a job.

    Args:
        endings: Of all machines, the chief's first.
        stopped: The signal that the driver got first; None for none.
    """
    if stopped is not None and any(ending.code != 0 for ending in endings):
        return 128 + stopped
    if any(ending.lost for ending in endings):
        return WorkerFailedError.exit_code
    codes = [_shell_code(ending.code or 0) for ending in endings]
    return codes[0] or max(codes)


def lost_text(ending: Ending) -> str:
    """Returns what is said of a machine that was lost."""
    return (
        f"error: lost {ending.machine}: {ending.lost}. The other nodes stop. The same command with --resume auto and "
        "the run's --run-dir continues from its last checkpoint."
    )


def killed_text(ending: Ending) -> str | None:
    """Returns what is said of a launcher that a signal ended; None where none did, as launchers tell of all else
    themselves."""
    if ending.code is None or ending.code >= 0:
        return None
    memory = " The machine may have run out of memory: its kernel's log tells." if ending.code == -_KILLED else ""
    return f"error: signal {-ending.code} ended the launcher of {ending.machine}.{memory}"


def _shell_code(code: int) -> int:
    return 128 - code if code < 0 else code


def dead_nodes(ray: Any, suspects: Collection[str]) -> set[str]:
    """Those of some nodes that are dead or out of reach.

    Ray takes seconds to find that a node is dead, and longer for one that is cut off. Its daemon (raylet), to which
    drivers connect anyway, refuses connections at once.

    Args:
        suspects: The ids of nodes on which something was lost.
    """
    known = {node["NodeID"]: node for node in ray.nodes() if node["NodeID"] in suspects}
    alive = [node for node in known.values() if node["Alive"]]
    if not alive:
        return set(suspects)
    with ThreadPoolExecutor(min(_AT_ONCE, len(alive))) as pool:
        reached = pool.map(_takes_connections, alive)
        there = {node["NodeID"] for node, is_reached in zip(alive, reached, strict=True) if is_reached}
    return set(suspects) - there


def _takes_connections(node: dict[str, Any]) -> bool:
    try:
        with socket.create_connection((node["NodeManagerAddress"], node["NodeManagerPort"]), _CONNECT_SECONDS):
            return True
    except OSError:
        return False


def answers(ray: Any, references: Sequence[Any], machines: Sequence[NodeWorkers]) -> list[Any]:
    """Returns what actors answer to the same question.

    Args:
        references: The answers to come, one a machine.
        machines: Whom they come from.

    Raises:
        TfdistError: What the actor raised, with its node, or the actor is lost or silent.
    """
    found = []
    for reference, machine in zip(references, machines, strict=True):
        try:
            found.append(ray.get(reference, timeout=_ANSWER_SECONDS))
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, TfdistError):
                raise type(cause)(f"{machine.node}: {cause}") from None
            raise WorkerFailedError(f"Lost {machine} before it could start: {lost_reason(error)}.") from error
    return found


def lost_reason(error: BaseException) -> str:
    """Returns why an actor does not answer, in a line, from an error of Ray's."""
    if "timeout" in type(error).__name__.lower():
        return f"its actor does not answer within {_ANSWER_SECONDS:g} s"
    text = " ".join(str(error).split())
    if "No module named 'tfdist" in text:
        return 'tfdist is not installed there, in the Python that runs Ray: pip install "tfdist[ray]" on every node'
    if "node has died" in text or "node was terminated" in text:
        return NODE_DIED
    if "unavailable" in text:
        return "its actor cannot be reached"
    if "memory" in type(error).__name__.lower():
        return f"Ray ended its actor for want of memory: {text[:_MOST_REASON]}".rstrip(". ")
    process = re.search(r"pid: (\d+).*process has died", text)
    if process is not None:
        return f"the process of its actor, pid {process[1]}, died or was killed"
    return f"its actor died: {text[:_MOST_REASON]}".rstrip(". ")


class Driving:
    """Hears launchers.

    Args:
        actors: Machine -> its actor, whose launcher was started; the chief's first.
        grace: Seconds that workers have to stop.
    """

    def __init__(
        self, ray: Any, actors: Mapping[NodeWorkers, Any], signals: Signals, grace: float, streams: OwnStreams
    ) -> None:
        self._ray = ray
        self._actors = actors
        self._signals = signals
        self._grace = grace
        self._endings: dict[NodeWorkers, Ending] = {}
        self._asked: dict[Any, tuple[NodeWorkers, float]] = {}
        self._unavailable_since: dict[NodeWorkers, float] = {}
        self._passed_on = 0
        self._deadline: float | None = None
        self._has_killed = False
        chief = next(iter(actors))
        self._outputs = {
            machine: NodeOutput(streams, None if machine is chief else machine.node.name) for machine in actors
        }

    def run(self) -> list[Ending]:
        """Hears them to their end; how each ended, the chief's first."""
        for machine in self._actors:
            self._ask(machine)
        while self._asked:
            ready, _ = self._ray.wait(list(self._asked), timeout=_LOOK_SECONDS)
            for reference in ready:
                self._hear(reference)
            self._pass_on_signals()
            self._find_silent()
            self._bound_the_end()
        chief, *others = self._outputs.values()
        for output in others:
            output.tell_errors(chief.errors)
        # Ray tells of the actor first, and of its node once it has missed it for a while.
        lost = {machine.node.id for machine, ending in self._endings.items() if ending.lost}
        dead = dead_nodes(self._ray, lost) if lost else set()
        return [_with_node(self._endings[machine], dead) for machine in self._actors]

    def _ask(self, machine: NodeWorkers) -> None:
        self._asked[self._actors[machine].events.remote()] = (machine, time.monotonic())

    def _hear(self, reference: Any) -> None:
        machine, _ = self._asked.pop(reference)
        try:
            events = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            if self._may_come_back(machine, error):
                time.sleep(_AGAIN_SECONDS)
                self._ask(machine)
            else:
                self._end(Ending(machine, None, lost_reason(error)))
            return
        self._unavailable_since.pop(machine, None)
        for number, data in events.output:
            self._outputs[machine].write(number, data)
        if events.code is None:
            self._ask(machine)
        else:
            self._end(Ending(machine, events.code))

    def _may_come_back(self, machine: NodeWorkers, error: BaseException) -> bool:
        """Returns whether an actor is out of reach, and has not been for long."""
        if not isinstance(error, self._ray.exceptions.ActorUnavailableError):
            return False
        now = time.monotonic()
        return now - self._unavailable_since.setdefault(machine, now) < _UNAVAILABLE_SECONDS

    def _end(self, ending: Ending) -> None:
        self._endings[ending.machine] = ending
        self._outputs[ending.machine].end()
        if self._deadline is None:
            self._deadline = time.monotonic() + self._grace + _END_SECONDS

    def _pass_on_signals(self) -> None:
        """The first signal asks the workers to stop, as it does of `tfdist train`; the second ends them."""
        self._signals.drain()
        for number in self._signals.received[self._passed_on :]:
            self._passed_on += 1
            self._signal(number)
            if self._deadline is None:
                self._deadline = time.monotonic() + self._grace + _END_SECONDS

    def _signal(self, number: int) -> None:
        for machine, actor in self._actors.items():
            if machine not in self._endings:
                # What comes of it is heard by `events`.
                with contextlib.suppress(self._ray.exceptions.RayError):
                    actor.signal.remote(int(number))

    def _find_silent(self) -> None:
        now = time.monotonic()
        for reference, (machine, since) in list(self._asked.items()):
            if now - since > _SILENT_SECONDS:
                del self._asked[reference]
                self._end(Ending(machine, None, f"its actor has not answered for {_SILENT_SECONDS:g} s"))

    def _bound_the_end(self) -> None:
        if self._deadline is None or time.monotonic() < self._deadline:
            return
        if not self._has_killed:
            self._has_killed, self._deadline = True, time.monotonic() + _END_SECONDS / 2
            self._signal(signal.SIGKILL)
            return
        for machine, _ in self._asked.values():
            self._end(Ending(machine, None, "its launcher did not end in time"))
        self._asked.clear()


def _with_node(ending: Ending, dead: Collection[str]) -> Ending:
    """Blames a node for the loss of its actor."""
    is_dead = ending.lost and ending.machine.node.id in dead
    return dataclasses.replace(ending, lost=NODE_DIED) if is_dead else ending
