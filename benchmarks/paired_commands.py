"""Paired commands: two in turn, and their ratio pair by pair, which noise on the machine leaves comparable."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """Steps a second of two commands over several pairs.

    Attributes:
        first: Of the first command, one a pair.
        second: Of the second command, one a pair.
    """

    first: tuple[float, ...]
    second: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of first / second."""
        return statistics.median(a / b for a, b in zip(self.first, self.second, strict=True))

    def __str__(self) -> str:
        ratios = [a / b for a, b in zip(self.first, self.second, strict=True)]
        return (
            f"{self.median:.2f} ({min(ratios):.2f} to {max(ratios):.2f}); medians {statistics.median(self.first):.1f} "
            f"and {statistics.median(self.second):.1f} steps/s over {len(ratios)} pairs"
        )


def compare(first: Sequence[str], second: Sequence[str], *, pairs: int = 5, timeout: float = 300) -> Ratio:
    """Runs both commands in turn, A B A B ...; each prints a line of JSON with `steps_per_second` or `steps_per_s`.

    Raises:
        subprocess.CalledProcessError: A command failed.
        subprocess.TimeoutExpired: A command took longer than `timeout` seconds.
    """
    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(pairs):
        for command, into in zip((first, second), rates, strict=True):
            into.append(_rate(command, timeout))
    return Ratio(tuple(rates[0]), tuple(rates[1]))


def _rate(command: Sequence[str], timeout: float) -> float:
    done = subprocess.run(command, capture_output=True, timeout=timeout, text=True)
    if done.returncode != 0:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            content = json.loads(line)
            return float(content.get("steps_per_second") or content["steps_per_s"])
    raise ValueError(f"{' '.join(command)} printed no line of JSON. Received: {done.stdout[-500:]!r}")
