"""Speeds of TensorFlow's own kernels and of oneDNN's on this machine, and checks of those that a run here would take.

Each is measured in a process of its own.
"""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tfdist.bounded_process import started
from tfdist.doctor.check_result import Check, ok, warn
from tfdist.launch.environment import variables_added
from tfdist.launch.worker.kernel_choice import NAMES, ONEDNN, TENSORFLOW, KernelChoice, Kernels, kernel_settings

COMMAND = (sys.executable, "-m", "tfdist.runtime.kernel_speed")
ROUNDS = 3
"""Both processes measure so often, in turn: what else runs here for a while disturbs both."""

_BOTH: tuple[Kernels, Kernels] = (TENSORFLOW, ONEDNN)
_PIECE_BYTES = 1 << 16
_MOST_BYTES = 1 << 20
_NAME = "kernels"
_CONVOLUTION = "convolution"
_CLEARLY = 1.1
"""The multiple of the faster kernels' time that the slower ones must take to be warned of."""


@dataclass(frozen=True)
class KernelSpeeds:
    """The speeds of both kernels on one core.

    Attributes:
        tensorflow: Operation -> GFLOP/s of TensorFlow's own kernels.
        onednn: Likewise of oneDNN's.
    """

    tensorflow: Mapping[str, float]
    onednn: Mapping[str, float]


@dataclass(frozen=True)
class UnknownSpeeds:
    """The speeds could not be measured.

    Attributes:
        why: In a few words.
    """

    why: str


class _Trouble(Exception):
    """A process did not answer as it should."""


def measure_kernels(seconds: float, command: Sequence[str] = COMMAND) -> KernelSpeeds | UnknownSpeeds:
    """Measures both kernels."""
    deadline = time.monotonic() + seconds
    try:
        with contextlib.ExitStack() as stack:
            # Both at once load TensorFlow, which takes longer than all else.
            begun = [stack.enter_context(_started(command, seconds, kernels)) for kernels in _BOTH]
            processes = [_Process(*each) for each in zip(_BOTH, begun, strict=True)]
            for process in processes:
                process.expect_ready(deadline)
            for _ in range(ROUNDS):
                for process in processes:
                    process.measure(deadline)
            tensorflow, onednn = processes
            return KernelSpeeds(tensorflow.fastest, onednn.fastest)
    except (_Trouble, OSError) as error:
        return UnknownSpeeds(str(error))


def _started(
    command: Sequence[str], seconds: float, kernels: Kernels
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    environ = variables_added(kernel_settings(kernels))
    return started([*command, str(seconds)], environ=environ, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)


class _Process:
    """A process that computes by some kernels."""

    def __init__(self, kernels: Kernels, process: subprocess.Popen[bytes]) -> None:
        self.fastest: dict[str, float] = {}
        self._kernels = kernels
        self._received = b""
        self._process = process

    def expect_ready(self, deadline: float) -> None:
        """Waits until the process can measure, and checks that it has the kernels that it was given."""
        has = self._answer(deadline).get("kernels")
        if has != self._kernels:
            raise _Trouble(f"this TensorFlow does not heed TF_ENABLE_ONEDNN_OPTS: it computes by {has}'s kernels alone")

    def measure(self, deadline: float) -> None:
        """Measures once more."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"\n")
        except BrokenPipeError:
            raise _Trouble("a process that measures them ended before it had") from None
        speeds = self._answer(deadline).get("speeds")
        if not isinstance(speeds, dict) or not all(isinstance(speed, float) and speed > 0 for speed in speeds.values()):
            raise _Trouble(f"a process that measures them said {speeds!r:.100}")
        self.fastest = {name: max(speed, self.fastest.get(name, 0.0)) for name, speed in speeds.items()}

    def _answer(self, deadline: float) -> dict[str, Any]:
        line = self._line(deadline)
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise _Trouble(f"a process that measures them said {line!r:.100}")
        return answer

    def _line(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        while b"\n" not in self._received:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise _Trouble("the time was up before they were measured")
            piece = self._process.stdout.read(_PIECE_BYTES)
            if not piece or len(self._received) > _MOST_BYTES:
                raise _Trouble("a process that measures them ended before it had")
            self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        return line


def check_kernels(choice: KernelChoice, speeds: KernelSpeeds | UnknownSpeeds | None) -> Check:
    """Returns which kernels `--kernels auto` takes here, and whether these are the faster ones.

    Args:
        choice: Of `--kernels auto`.
        speeds: What was measured; None where nothing was to be.
    """
    if choice.kernels is None:
        return ok(_NAME, f"TensorFlow's choice: {choice.reason}")
    taken = f"--kernels auto takes {NAMES[choice.kernels]}, as {choice.reason}"
    if speeds is None:
        return ok(_NAME, taken)
    if isinstance(speeds, UnknownSpeeds):
        return ok(_NAME, f"{taken}; not measured: {speeds.why}")
    dense, convolution = _ratio(speeds, is_dense=True), _ratio(speeds, is_dense=False)
    found = f"{taken}\n{_compared(dense, convolution)}\n{_listed(speeds)}"
    other = TENSORFLOW if choice.kernels == ONEDNN else ONEDNN
    slower = (dense, convolution) if choice.kernels == ONEDNN else (1 / dense, 1 / convolution)
    if min(slower) > _CLEARLY:
        return warn(_NAME, found, f"Try --kernels {other} with your model: {NAMES[other]} are faster here.")
    return ok(_NAME, found)


def _compared(dense: float, convolution: float) -> str:
    """Both ratios in words."""
    if max(dense, convolution) < 1:
        verdict = f"{NAMES[ONEDNN]} are faster here"
    elif min(dense, convolution) > 1:
        verdict = f"{NAMES[TENSORFLOW]} are faster here"
    else:
        verdict = "which are faster here depends on the layers"
    return (
        f"{verdict}: forward and backward, a Dense layer takes {dense:.2f} times as long with oneDNN's, a convolution "
        f"{convolution:.2f} times"
    )


def _listed(speeds: KernelSpeeds) -> str:
    """Each operation's speed by both."""
    pairs = ", ".join(f"{name} {speeds.tensorflow[name]:.0f} | {speeds.onednn[name]:.0f}" for name in speeds.tensorflow)
    return f"GFLOP/s of a core, TensorFlow's own | oneDNN's: {pairs}"


def _ratio(speeds: KernelSpeeds, *, is_dense: bool) -> float:
    """The time that oneDNN's kernels take over that of TensorFlow's; the products of a Dense layer have one size."""

    def seconds(found: Mapping[str, float]) -> float:
        return sum(1 / speed for name, speed in found.items() if (name != _CONVOLUTION) == is_dense)

    return seconds(speeds.onednn) / seconds(speeds.tensorflow)
