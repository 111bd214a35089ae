"""How the process that speaks for a job learns that it is the job's turn, and answers: by two pipes in its folder."""

from __future__ import annotations

import json
import os
import select
from pathlib import Path
from typing import Any

TURN = "turn"
SAID = "said"


class TurnTaking:
    """One job's ends of the pipes, which the benchmark has made.

    Args:
        folder: Where they are.
        seconds: How long it may have to wait for a turn.
    """

    def __init__(self, folder: str, seconds: float) -> None:
        self._turn = os.open(Path(folder, TURN), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._said = os.open(Path(folder, SAID), os.O_RDWR | os.O_CLOEXEC)
        self._seconds = seconds

    def say(self, **facts: Any) -> None:
        """What the benchmark reads: that the job has started, without facts, then what its turn has given."""
        os.write(self._said, json.dumps(facts).encode() + b"\n")

    def await_turn(self) -> None:
        """Returns when it is the job's turn.

        Raises:
            TimeoutError: It has not come.
        """
        if not select.select([self._turn], (), (), self._seconds)[0]:
            raise TimeoutError(f"this job's turn has not come within {self._seconds:g} s")
        os.read(self._turn, 1)
