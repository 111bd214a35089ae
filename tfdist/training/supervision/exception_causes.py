"""Causes of exceptions: the error of tfdist, with remedy and exit code, that an exception stands for."""

from __future__ import annotations

import re
import sys
import traceback

from tfdist.errors import DeviceMemoryError, TfdistError, UnsupportedError, UsageError, WorkerFailedError
from tfdist.text import safe_str
from tfdist.training.supervision.user_frames import RUNPY, starts_scripts, user_place_of

_PEER_TYPES = ("UnavailableError", "DeadlineExceededError", "AbortedError", "CancelledError")
_COORDINATION = "CoordinationServiceError"
"""In texts of TensorFlow's other errors that say that it has given up a worker, such as one without a processor."""
_NO_MEMORY = ("oom when allocating", "out of memory", "failed to allocate")
"""Texts of a ResourceExhaustedError that is about memory; others are about messages that are too large."""
_OF_SUM = re.compile(r"\b(?P<type>WorkerFailedError|UsageError): (?P<text>.+?)(?=\nTraceback|\n\n|\Z)", re.DOTALL)
_ABORTED = "Collective ops is aborted by: "


def explain(error: BaseException, *, has_peers: bool = True) -> TfdistError | None:
    """Finds the cause that a user can act on.

    Args:
        error: What ended the worker.
        has_peers: Whether there are other workers, whose loss may be behind it. Without any, TensorFlow raises the same
            exceptions for a file system or a service that it cannot reach.

    Returns:
        A tfdist error with its exit code, or None when the exception is the user's own.
    """
    if isinstance(error, TfdistError):
        return error
    if _finds_no_module(error):
        return UsageError(f"-m names no module that can be run: {error}. Expected what `python -m` would run here.")
    if "tensorflow" not in sys.modules:
        return None
    from tfdist.data import data_error_in

    peer_error = _peers_error_in(error) if has_peers else None
    return data_error_in(error) or _memory_error_in(error) or peer_error or _own_loop_error_in(error)


def _finds_no_module(error: BaseException) -> bool:
    """Returns whether runpy, started for `-m`, gave up before it ran a line of the module."""
    frames = traceback.extract_tb(error.__traceback__)
    return (
        isinstance(error, ImportError)
        and frames[-1].filename == RUNPY
        and all(starts_scripts(frame.filename) for frame in frames)
    )


def _memory_error_in(error: BaseException) -> TfdistError | None:
    """The error for a tensor that did not fit into a device's memory."""
    if not (type(error).__module__.startswith("tensorflow.") and type(error).__name__ == "ResourceExhaustedError"):
        return None
    lines = safe_str(error).splitlines()
    text = next((line for line in lines if any(words in line.lower() for words in _NO_MEMORY)), None)
    if text is None:
        return None
    return DeviceMemoryError(
        "A device of this worker ran out of memory. Use a smaller global batch (data.batch_size in a config, "
        "batch_size in a script) or more replicas, mixed precision (precision: mixed_bfloat16), --shard or "
        "--tensor on several workers (tfdist plan CONFIG --memory says what each takes, and which fits), or a larger "
        f"--memory-limit where one is set; another process on the device counts, too. TensorFlow says: {text.strip()}"
    )


def _peers_error_in(error: BaseException) -> TfdistError | None:
    return _sum_error_in(error) or _disagreement_in(error) or _peer_error_in(error)


def _sum_error_in(error: BaseException) -> TfdistError | None:
    """The error of a sum in memory that workers share, which TensorFlow hands on as a text."""
    raised = _OF_SUM.search(safe_str(error)) if type(error).__module__.startswith("tensorflow.") else None
    if raised is None:
        return None
    kind = WorkerFailedError if raised["type"] == WorkerFailedError.__name__ else UsageError
    return kind(raised["text"].strip())


def _disagreement_in(error: BaseException) -> TfdistError | None:
    """The error for collectives of a `tf.function` that do not fit, together or to their values, by an assertion."""
    from tfdist.runtime.collectives.calls import CUTS
    from tfdist.runtime.collectives.traced_agreement import DISAGREEMENT

    said = re.search(rf"assertion failed: \[((?:{DISAGREEMENT}|[^\[\]\n]* {CUTS}).*)\]", safe_str(error))
    if said is None or type(error).__name__ != "InvalidArgumentError":
        return None
    return UsageError(said[1].replace("] [", " "))


def _peer_error_in(error: BaseException) -> TfdistError | None:
    """The error for a collective that broke because another worker ended or is out of reach."""
    is_tensorflow = type(error).__module__.startswith("tensorflow.")
    if is_tensorflow and (type(error).__name__ in _PEER_TYPES or _COORDINATION in safe_str(error)):
        return WorkerFailedError(
            "This worker waited for the others in a collective, and it broke off: another worker ended, hung for "
            f"longer than --step-timeout or cannot be reached any more. TensorFlow says: {_gist(error)}"
        )
    return None


def _gist(error: BaseException) -> str:
    """The one line of TensorFlow's text that says why; pages about the place in the graph come before it."""
    lines = safe_str(error).strip().splitlines() or [type(error).__name__]
    why = next((line for line in lines if _ABORTED in line), lines[0])
    return why.rpartition(_ABORTED)[2]


def _own_loop_error_in(error: BaseException) -> TfdistError | None:
    """The error for a gradient that a script takes outside of the replicas, where TensorFlow has no variable for it."""
    if isinstance(error, ValueError) and "DistributedVariable.handle is not available outside" in safe_str(error):
        return UnsupportedError(
            "A loop of the script's own computes gradients outside of the replicas, where every replica would train on "
            "all data and none would take work off another. Expected fit(), train_on_batch(), or a step that "
            "tfdist.strategy().run(...) starts for each batch of experimental_distribute_dataset(...). Use one of "
            f"these, or train on one device. Received: a gradient of a model's variables, {user_place_of(error)}"
        )
    return None
