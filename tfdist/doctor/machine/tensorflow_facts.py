"""Facts about TensorFlow, from a process of its own: one that crashes or hangs does no harm here."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tfdist.bounded_process import run
from tfdist.launch.environment import choose_kernels_here, variables_added
from tfdist.launch.worker.kernel_choice import kernel_settings

COMMAND = (sys.executable, "-m", "tfdist.runtime.tensorflow_probe")
KILL_AFTER_SECONDS = 2.0
"""Seconds that the process may take beyond its own bound."""
_HUNG = "Timeout ("
_SHOWN_LINES = 12


@dataclass(frozen=True)
class ProbeRequest:
    """The worker that a run would start here.

    Attributes:
        workers: Workers of the cluster.
        rank: Its place among those of this machine.
        size: Workers of this machine.
        seconds: How long the answer may take.
    """

    workers: int
    rank: int
    size: int
    seconds: float


@dataclass(frozen=True)
class TensorFlowFacts:
    """The findings of TensorFlow, and what a worker here would use.

    Attributes:
        tensorflow, keras, numpy: Versions as imported.
        backend: Keras's backend.
        gpus: Name and compute capability of every GPU that TensorFlow sees.
        cuda, cudnn: What TensorFlow was built for; empty without.
        capabilities: Compute capabilities that it has code for, such as `sm_80`.
        nccl: Its NCCL's version; None when it cannot be told.
        onednn: Whether a worker's operations on the CPU are oneDNN's.
        devices: What this worker's replicas would run on.
        choice: The strategy: `kind`, `communication` and `reason`; None when it was refused.
        refused: Why a worker here could not start; empty when it could.
    """

    tensorflow: str
    keras: str
    numpy: str
    backend: str
    gpus: tuple[dict[str, str], ...]
    cuda: str
    cudnn: str
    capabilities: tuple[str, ...]
    nccl: str | None
    onednn: bool = False
    devices: tuple[str, ...] = ()
    choice: dict[str, str] | None = None
    refused: str = ""


@dataclass(frozen=True)
class BrokenTensorFlow:
    """TensorFlow failed before it reported anything.

    Attributes:
        what: What happened, such as `failed at 'import TensorFlow': ImportError: ...`.
        output: The last lines that the process wrote; if it hung, its stack, innermost call first.
        hung: Whether it took longer than it was given.
    """

    what: str
    output: tuple[str, ...] = ()
    hung: bool = False


def probe(
    request: ProbeRequest, command: Sequence[str] = COMMAND, kill_after: float = KILL_AFTER_SECONDS
) -> TensorFlowFacts | BrokenTensorFlow:
    """Runs the probe.

    Args:
        request: The worker that it stands for, and its bound in seconds.
        kill_after: Seconds beyond its bound after which the probe is killed.
    """
    # What a worker would compute by is part of what is found.
    environ = variables_added(kernel_settings(choose_kernels_here().setting))
    command = [*command, json.dumps(asdict(request))]
    ran = run(command, request.seconds + kill_after, question=b"", environ=environ)
    hung = ran.code is None or any(line.startswith(_HUNG) for line in ran.err.splitlines())
    return understand(ran.out, ran.err, ran.code or 0, request.seconds if hung else None)


def understand(out: str, err: str, code: int, hung: float | None) -> TensorFlowFacts | BrokenTensorFlow:
    """Reads the facts from what the process printed and how it ended.

    Args:
        out: Its standard output.
        err: Its standard error.
        code: Its exit code, negative for a signal.
        hung: The seconds after which it hung; None when it ended by itself.
    """
    stage = "start"
    for message in _messages(out):
        stage = message.get("stage", stage)
        for kind in ("facts", "refused"):
            if isinstance(message.get(kind), dict):
                return _facts(message[kind])
    lines = [line for line in err.splitlines() if line.strip()]
    if hung is not None:
        # The dump of the stacks begins with the innermost call.
        dump = next((number for number, line in enumerate(lines) if line.startswith(_HUNG)), 0)
        where = tuple(lines[dump : dump + _SHOWN_LINES])
        return BrokenTensorFlow(f"did not get through '{stage}' within {hung:g} s", where, hung=True)
    shown = tuple(lines[-_SHOWN_LINES:])
    if code < 0:
        return BrokenTensorFlow(f"was ended by {_signal_name(-code)} at '{stage}'", shown)
    return BrokenTensorFlow(f"failed at '{stage}': {lines[-1].strip() if lines else f'exit code {code}'}", shown)


def _facts(told: dict[str, Any]) -> TensorFlowFacts:
    text = told.pop("text", "")
    for name in ("gpus", "capabilities", "devices"):
        told[name] = tuple(told.get(name, ()))
    return TensorFlowFacts(**told, refused=text)


def _messages(out: str) -> Iterator[dict[str, Any]]:
    for line in out.splitlines():
        try:
            message = json.loads(line)
        except ValueError:
            # The last line of a process that was killed may be cut off.
            continue
        if isinstance(message, dict):
            yield message


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
