"""The trial: processes that try seed after seed until the time is over, and what they found."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.random_trial.drawing import draw_of
from tests.random_trial.script import script_of

ROOT = Path(__file__).resolve().parents[2]
DRAWS_OF_A_PROCESS = 40
BOUND = 420.0
"""Seconds without a line from a process before it counts as hanging: one draw, or one try of a smaller one."""


@dataclass
class Report:
    """What came of the draws.

    Attributes:
        seeds: Those that were tried.
        kinds: How many draws came to what.
        lines: How often a refusal, an error of one replica or an instability had this first line.
        findings: What is to be looked at, each with its script.
    """

    seeds: list[int] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    lines: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def add(self, told: dict[str, Any]) -> None:
        """Counts a draw that is done."""
        self.seeds.append(told["seed"])
        self.kinds[told["kind"]] += 1
        if "script" in told:
            self.findings.append(f"seed {told['seed']}: {told['kind']}: {told['line']}\n\n{told['script']}")
        elif told["line"]:
            self.lines[f"{told['kind']}: {told['line']}"] += 1

    def __str__(self) -> str:
        seeds = f"seeds {min(self.seeds)} to {max(self.seeds)}" if self.seeds else "no seeds"
        counts = ", ".join(f"{count} {kind}" for kind, count in self.kinds.most_common())
        lines = [f"{len(self.seeds)} draws, {seeds}: {counts}"]
        lines += [f"{count:5d} x {line}" for line, count in self.lines.most_common()]
        return "\n".join([*lines, *(f"\n{'=' * 100}\n{finding}" for finding in self.findings)])


def trial(first: int, minutes: float, *, draws: int | None = None) -> Report:
    """Tries seeds from `first` on until the time is over, or so many draws are made.

    Each draw prints a line. The last one ends after at most its bound.
    """
    report, seed, until = Report(), first, time.monotonic() + 60.0 * minutes
    last = first + draws if draws is not None else None
    while time.monotonic() < until and (last is None or seed < last):
        count = DRAWS_OF_A_PROCESS if last is None else min(DRAWS_OF_A_PROCESS, last - seed)
        seed = _tried(seed, count, until, report)
    return report


def _tried(first: int, count: int, until: float, report: Report) -> int:
    """Lets one process try seeds, and returns the seed to go on with."""
    seed, found = first, {}
    with _child(first, count) as (lines, errors):
        for told in _told(lines):
            seed = told["seed"]
            if told["state"] == "found":
                found = told
                _print(told)
                print(told["details"], flush=True)
            elif told["state"] == "done":
                report.add(told)
                found = {}
                seed += 1
                _print(told)
                if time.monotonic() > until:
                    return seed
        last_words = errors.read_text(errors="replace")[-2000:]
    if seed == first + count:
        return seed
    # It hung or died while it tried this one, or something smaller.
    kind = found.get("kind", "hung or died")
    line = found.get("line", last_words)
    told = {"seed": seed, "kind": kind, "line": line, "script": script_of(draw_of(seed))}
    report.add(told)
    _print(told)
    return seed + 1


def _print(told: dict[str, Any]) -> None:
    print(f"{time.strftime('%H:%M:%S')} seed {told['seed']}: {told['kind']} {told['line']}".rstrip(), flush=True)
    if "script" in told:
        print(f"\n{told['script']}\n", flush=True)


@contextlib.contextmanager
def _child(first: int, count: int) -> Iterator[tuple[queue.Queue[str], Path]]:
    """A process's lines as they come, the last one empty, and the file of what it writes to stderr."""
    lines: queue.Queue[str] = queue.Queue()
    with tempfile.TemporaryDirectory() as folder:
        errors = Path(folder) / "stderr"
        with errors.open("w") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.random_trial.child", str(first), str(count)],
                cwd=ROOT,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "TMPDIR": folder},
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )
        assert process.stdout is not None
        reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
        reader.start()
        try:
            yield lines, errors
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            reader.join()
            process.stdout.close()


def _read(stream: IO[str], lines: queue.Queue[str]) -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


def _told(lines: queue.Queue[str]) -> Iterator[dict[str, Any]]:
    """What a process says, until it has ended or says nothing for too long."""
    while True:
        try:
            line = lines.get(timeout=BOUND)
        except queue.Empty:
            return
        if not line:
            return
        if line.startswith('{"seed"'):
            yield json.loads(line)
