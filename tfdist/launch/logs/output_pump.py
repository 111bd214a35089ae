"""Output pump of one worker: every byte that it prints goes to its log, and to the terminal what is shown.

The log is written by a thread of its own: a disk that does not answer, as a network file system may, then holds up
neither the terminal nor the worker, which waits as soon as nobody reads what it prints.
"""

from __future__ import annotations

import collections
import os
import re
import selectors
import threading
import time
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from tfdist.launch.logs.line_splitter import LineSplitter, ScreenSplitter, StreamSplitter
from tfdist.launch.logs.terminal import STDERR, STDOUT, Terminal
from tfdist.rundir.regular_files import open_to_append
from tfdist.tf_log_filter import LineFilter, NcclLineFilter, TfLogFilter

_MOST_BYTES = 8 << 20
"""Bytes that may wait in memory for the disk."""
_SILENT_SECONDS = 10.0
"""Seconds for which a disk may take nothing until what comes is left out."""
_TICK_SECONDS = 1.0
_READ_BYTES = 65536
_TAIL_LINES = 20
_TAIL_LINE_BYTES = 2000
_IDLE_SECONDS = 0.2
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_LOG_SECONDS = 1.0
"""Seconds that the end of a worker waits for the disk of its log."""
_LOG_PATIENCE = 1.0
"""Seconds after which an unfinished line is in the log, for whoever follows it and in case the launcher is killed."""


class WorkerLog:
    """The log of one worker in one attempt, opened to append, as the worker itself adds its traceback.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._file: FileIO | None = open_to_append(path)
        self._unfinished: int | None = None

    def write(self, stream: int, data: bytes) -> OSError | None:
        """Adds what was written to `stream`; after an unfinished line of the other stream, on a new line.

        Returns:
            Why the log ends here, once: a full disk must not stop the training.
        """
        if self._file is None or not data:
            return None
        if self._unfinished not in (None, stream):
            data = b"\n" + data
        self._unfinished = None if data.endswith(b"\n") else stream
        try:
            while data:
                data = data[self._file.write(data) or 0 :]
        except OSError as error:
            self.close()
            return error
        return None

    def close(self) -> None:
        """Closes the file; what is written later is dropped."""
        if self._file is not None:
            self._file.close()
            self._file = None


class BackgroundLog:
    """Writes into a log, in the order of the calls.

    Args:
        log: The log; it is closed at the end.
        stdout: The stream in whose lines it is said that some are missing.
        report: Told why the log ends, once, where it cannot be written any more.
    """

    def __init__(
        self,
        log: WorkerLog,
        stdout: int,
        report: Callable[[OSError], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._stdout = stdout
        self._report = report
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: collections.deque[tuple[int, bytes]] = collections.deque()
        self._bytes = self._missing = 0
        self._moved = clock()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="tfdist-log", daemon=True)
        self._thread.start()

    def write(self, stream: int, data: bytes) -> None:
        """Adds what was written to `stream`; waits for a disk that is only slower than what comes."""
        if not data:
            return
        with self._changed:
            while self._bytes > _MOST_BYTES and self._clock() - self._moved < _SILENT_SECONDS:
                self._changed.wait(_TICK_SECONDS)
            if self._bytes > _MOST_BYTES:
                self._missing += len(data)
                return
            if not self._waiting:
                self._moved = self._clock()
            self._add(stream, data)

    def close(self, timeout: float) -> None:
        """Waits until all is written, for `timeout` seconds at most; nothing is written later."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join(timeout)

    def _add(self, stream: int, data: bytes) -> None:
        self._waiting.append((stream, data))
        self._bytes += len(data)
        self._changed.notify_all()

    def _run(self) -> None:
        while (entry := self._next()) is not None:
            error = self._log.write(*entry)
            if error is not None:
                self._report(error)
            with self._changed:
                self._waiting.popleft()
                self._bytes -= len(entry[1])
                self._moved = self._clock()
                if self._missing:
                    text = (
                        f"\ntfdist: {self._missing:,} bytes are missing here, as the disk of this log did not answer\n"
                    )
                    self._missing = 0
                    self._add(self._stdout, text.encode())
                self._changed.notify_all()
        self._log.close()

    def _next(self) -> tuple[int, bytes] | None:
        """The oldest of what waits, as soon as there is something; None at the end."""
        with self._changed:
            while not self._waiting and not self._ending:
                self._changed.wait()
            return self._waiting[0] if self._waiting else None


class OutputPump:
    """A thread that reads what one worker writes, so that the worker never waits for the launcher's other work.

    Args:
        pipes: The reading ends of its stdout and stderr, by STDOUT and STDERR; the pump owns them.
        log: Where every byte goes; lines of the two streams are never mixed.
        terminal: Where it is shown; None when this worker's output is not.
        quiet: Whether TensorFlow's own log lines are left out on the terminal.

    Raises:
        OSError: The log cannot be opened.
    """

    def __init__(
        self,
        index: int,
        pipes: dict[int, BinaryIO],
        log: Path,
        terminal: Terminal | None,
        *,
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._index = index
        self._pipes = pipes
        self._terminal = terminal
        self._log = BackgroundLog(WorkerLog(log), STDOUT, self._report_end_of_log)
        self._quiet = quiet
        self._clock = clock
        self._filters: dict[int, LineFilter] = {STDERR: TfLogFilter(), STDOUT: NcclLineFilter()}
        self._for_log: dict[int, StreamSplitter] = {stream: LineSplitter(patience=_LOG_PATIENCE) for stream in pipes}
        self._for_tail: dict[int, StreamSplitter] = {stream: ScreenSplitter() for stream in pipes}
        self._for_terminal = {} if terminal is None else {stream: terminal.splitter() for stream in pipes}
        self._tail: collections.deque[bytes] = collections.deque(maxlen=_TAIL_LINES)
        self._ending = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._run, name=f"tfdist-output-{index}", daemon=True)
        self._thread.start()

    def close(self, timeout: float) -> bool:
        """Reads what the ended worker has left, and stops; a process that still has the pipe is not waited for.

        Returns:
            Whether the thread ended within `timeout` seconds; a terminal that accepts nothing any more can hold it up.
        """
        self._ending.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def last_lines(self) -> tuple[str, ...]:
        """The newest lines, oldest first, without TensorFlow's own and without colours; of a long line the start."""
        return tuple(_STYLE.sub("", line.decode(errors="replace")) for line in tuple(self._tail))

    def _run(self) -> None:
        with self._selector as selector:
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
                self._take_overdue()
        self._finish()

    def _take(self, stream: int, data: bytes) -> None:
        now = self._clock()
        self._keep(stream, self._for_log[stream].feed(data, now))
        own = self._filters[stream].feed(data) if stream in self._filters else data
        self._remember(self._for_tail[stream].feed(own, now))
        if self._terminal is not None:
            shown = own if self._quiet else data
            self._terminal.write(self._index, stream, self._for_terminal[stream].feed(shown, now))

    def _take_overdue(self) -> None:
        now = self._clock()
        for stream, splitter in self._for_log.items():
            self._keep(stream, splitter.overdue(now))
        if self._terminal is not None:
            for stream, splitter in self._for_terminal.items():
                self._terminal.write(self._index, stream, splitter.overdue(now))

    def _finish(self) -> None:
        for stream, pipe in self._pipes.items():
            self._keep(stream, self._for_log[stream].rest())
            own = self._filters[stream].rest() if stream in self._filters else b""
            self._remember(self._for_tail[stream].feed(own, self._clock()) + self._for_tail[stream].rest())
            if self._terminal is not None:
                self._show_rest(self._terminal, stream, own if self._quiet else b"")
            pipe.close()
        self._log.close(_LOG_SECONDS)

    def _show_rest(self, terminal: Terminal, stream: int, data: bytes) -> None:
        splitter = self._for_terminal[stream]
        terminal.write(self._index, stream, splitter.feed(data, self._clock()) + splitter.rest())

    def _remember(self, lines: bytes) -> None:
        self._tail.extend(line[:_TAIL_LINE_BYTES] for line in lines.split(b"\n")[:-1])

    def _keep(self, stream: int, data: bytes) -> None:
        self._log.write(stream, data)

    def _report_end_of_log(self, error: OSError) -> None:
        # The log itself cannot say that it ends here.
        if self._terminal is not None:
            self._terminal.write(self._index, STDERR, f"tfdist: this worker's log ends here: {error}\n".encode())
