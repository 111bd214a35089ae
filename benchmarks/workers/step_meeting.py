"""Workers of a loop that wait for each other after every step, and exchange nothing."""

from __future__ import annotations

import hashlib
import socket
import time

from benchmarks.workers.loop_spec import LoopSpec


class StepMeeting:
    """One worker's side: the first one hears of all others, then tells them.

    Args:
        spec: Of the worker; its folder, which no other loop has, names the meeting.

    Raises:
        TimeoutError: The others were not there in time.
    """

    def __init__(self, spec: LoopSpec) -> None:
        self._is_first = spec.index == 0
        self._deadline = time.monotonic() + spec.seconds
        # Of Linux's abstract namespace: nothing to remove, and no limit to the length of the folder's path.
        address = "\0tfdist-" + hashlib.sha256(spec.folder.encode()).hexdigest()
        self._ends = self._accepted(address, spec.workers - 1) if self._is_first else [self._connected(address)]

    def __call__(self) -> None:
        """Returns when all workers have called it once more."""
        if not self._is_first:
            self._ends[0].sendall(b"s")
        for end in self._ends:
            if not end.recv(1):
                raise ConnectionError("another worker of the loop has ended")
        if self._is_first:
            for end in self._ends:
                end.sendall(b"s")

    def close(self) -> None:
        """Hangs up."""
        for end in self._ends:
            end.close()

    @property
    def _left(self) -> float:
        return max(0.001, self._deadline - time.monotonic())

    def _accepted(self, address: str, count: int) -> list[socket.socket]:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(address)
            listening.listen(count)
            listening.settimeout(self._left)
            ends = [listening.accept()[0] for _ in range(count)]
        for end in ends:
            end.settimeout(self._left)
        return ends

    def _connected(self, address: str) -> socket.socket:
        while True:
            end = socket.socket(socket.AF_UNIX)
            try:
                end.connect(address)
            except ConnectionRefusedError:
                end.close()
                if time.monotonic() > self._deadline:
                    raise TimeoutError("the first worker of the loop did not come in time") from None
                time.sleep(0.002)
            else:
                end.settimeout(self._left)
                return end
