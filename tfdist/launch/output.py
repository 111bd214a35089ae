"""What workers print: every byte to the worker's log, and to the launcher's terminal what is shown."""

from __future__ import annotations

import collections
import os
import selectors
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

from tfdist.launch.noise import NoiseFilter, is_noise
from tfdist.launch.waiting import wait_for

Show = Literal["chief", "all", "none"]

STDOUT, STDERR = 1, 2
_READ_BYTES = 65536
_MAX_PARTIAL_BYTES = 65536
_TAIL_LINES = 20
_IDLE_SECONDS = 0.2


class LineCutter:
    """Cuts a stream into whole lines; a line that grows too long is passed on in parts."""

    def __init__(self, max_partial: int = _MAX_PARTIAL_BYTES) -> None:
        self._partial = b""
        self._max_partial = max_partial

    def feed(self, data: bytes) -> bytes:
        """Adds `data`; returns what is whole now, which is empty or ends with a newline (or with too long a part)."""
        data = self._partial + data
        end = data.rfind(b"\n") + 1
        if len(data) - end > self._max_partial:
            end = len(data)
        self._partial = data[end:]
        return data[:end]

    def rest(self) -> bytes:
        """What is left of a line that has not ended."""
        partial, self._partial = self._partial, b""
        return partial


class Target(Protocol):
    """Where bytes go, unbuffered."""

    def fileno(self) -> int: ...
    def write(self, data: Any, /) -> int | None: ...


class Terminal:
    """The launcher's own stdout and stderr, shared by its workers' pumps.

    Args:
        streams: Where STDOUT and STDERR go, unbuffered: a thread that a full pipe holds up must hold no lock that the
            interpreter wants at its end. None shows nothing.
        prefix: Whether each line begins with its worker's index.
        whole_lines: Whether to wait for a line's end, which several workers on one terminal need.
    """

    def __init__(
        self, streams: Mapping[int, Target] | None, *, prefix: bool = False, whole_lines: bool = False
    ) -> None:
        self._streams = dict(streams or {})
        self._prefix = prefix
        self.whole_lines = whole_lines or prefix
        self._lock = threading.Lock()

    def write(self, index: int, stream: int, data: bytes) -> None:
        """Shows what worker `index` wrote. A terminal that is gone shows nothing; the log still has it."""
        if self._prefix and data:
            label = f"[worker {index}] ".encode()
            data = b"".join(label + line for line in data.splitlines(keepends=True))
        with self._lock:
            target = self._streams.get(stream)
            if target is None or not data:
                return
            try:
                _write_all(target, data)
            except (OSError, ValueError):
                del self._streams[stream]


def _write_all(target: Target, data: bytes) -> None:
    """Writes to an unbuffered stream, which may take a part, or nothing while its other end is slow."""
    rest = memoryview(data)
    while rest:
        written = target.write(rest)
        if written is None:
            wait_for((), _IDLE_SECONDS, (target,))
        else:
            rest = rest[written:]


class Pump:
    """A thread that takes what one worker writes, so that the worker never waits for the launcher's other work.

    Args:
        index: The worker.
        pipes: The reading ends of its stdout and stderr, by STDOUT and STDERR; the pump owns them.
        log: Where every byte goes; lines of the two streams are never mixed.
        terminal: Where it is shown; None when this worker is not.
        quiet: Whether TensorFlow's own log lines are left out on the terminal.
    """

    def __init__(
        self, index: int, pipes: dict[int, BinaryIO], log: Path, terminal: Terminal | None, *, quiet: bool = False
    ) -> None:
        self._index = index
        self._pipes = pipes
        self._log: BinaryIO | None = log.open("ab", buffering=0)
        self._terminal = terminal
        self._for_log = {stream: LineCutter() for stream in pipes}
        self._for_terminal = {stream: LineCutter() for stream in pipes}
        self._filter = NoiseFilter() if quiet else None
        self._tail: collections.deque[bytes] = collections.deque(maxlen=_TAIL_LINES)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"tfdist-output-{index}", daemon=True)
        self._thread.start()

    def close(self, timeout: float) -> bool:
        """Takes what the ended worker has left and stops; a process that still has the pipe is not waited for.

        Returns:
            Whether the thread ended in `timeout` seconds; a terminal that takes nothing any more can keep it.
        """
        self._ending.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def last_lines(self) -> tuple[str, ...]:
        """The newest lines, oldest first."""
        return tuple(line.decode(errors="replace") for line in tuple(self._tail))

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for stream, pipe in self._pipes.items():
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, stream)
            while selector.get_map():
                ending = self._ending.is_set()
                ready = selector.select(0 if ending else _IDLE_SECONDS)
                for key, _ in ready:
                    data = os.read(key.fd, _READ_BYTES)
                    if data:
                        self._take(key.data, data)
                    else:
                        selector.unregister(key.fileobj)
                if not ready and ending:
                    break
        self._finish()

    def _take(self, stream: int, data: bytes) -> None:
        whole = self._for_log[stream].feed(data)
        self._remember(whole)
        self._write_log(whole)
        if self._terminal is not None:
            if stream == STDERR and self._filter is not None:
                data = self._filter.feed(data)
            shown = self._for_terminal[stream].feed(data) if self._terminal.whole_lines else data
            self._terminal.write(self._index, stream, shown)

    def _finish(self) -> None:
        for stream, pipe in self._pipes.items():
            rest = self._for_log[stream].rest()
            self._remember(rest)
            self._write_log(rest)
            if self._terminal is not None:
                self._show_rest(self._terminal, stream)
            pipe.close()
        if self._log is not None:
            self._log.close()

    def _show_rest(self, terminal: Terminal, stream: int) -> None:
        held = self._filter.rest() if stream == STDERR and self._filter is not None else b""
        terminal.write(self._index, stream, self._for_terminal[stream].rest() + held)

    def _remember(self, whole: bytes) -> None:
        self._tail.extend(line for line in whole.splitlines() if not is_noise(line))

    def _write_log(self, data: bytes) -> None:
        if self._log is None:
            return
        try:
            while data:
                data = data[self._log.write(data) or 0 :]
        except OSError as error:
            # A full disk must not stop the training; that the log ends here is said where it can be seen.
            self._log.close()
            self._log = None
            if self._terminal is not None:
                self._terminal.write(self._index, STDERR, f"tfdist: this worker's log ends here: {error}\n".encode())
