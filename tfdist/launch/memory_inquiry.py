"""Inquiry for the sizes of a config's model and step, which a child process with TensorFlow tells."""

from __future__ import annotations

from typing import Any

from tfdist.config import RunConfig
from tfdist.errors import DataError, TfdistError, UsageError, WorkerFailedError
from tfdist.launch.config_process import ConfigProcess

_SIZES = ConfigProcess(
    "tfdist.training.step_memory.memory_worker",
    "Tracing a step of the model",
    "without --memory no model is built",
)
_ERRORS: tuple[type[TfdistError], ...] = (UsageError, DataError)


def ask_step_sizes(config: RunConfig, share: int, seconds: float) -> dict[str, Any]:
    """The sizes of a config's model, its optimizer's state and one step on a device.

    Args:
        config: The run's.
        share: Samples of a step on the device.
        seconds: How long it may take.

    Returns:
        What `tfdist.plan.memory.step_sizes.StepSizes.to_json` makes of them.

    Raises:
        UsageError: The config names something that does not exist or does not fit.
        DataError: The data cannot be read.
        WorkerFailedError: The process took too long, or died; the text has what it said last.
    """
    answer = _SIZES.answer((config, share), seconds)
    if "error" in answer:
        raise next((kind for kind in _ERRORS if kind.exit_code == answer["code"]), WorkerFailedError)(answer["error"])
    return dict(answer)
