"""Data errors in TensorFlow's errors, in which everything arrives that a pipeline raises."""

from __future__ import annotations

import re

import tensorflow as tf

from tfdist.data.ops.record_parser import fault_in
from tfdist.errors import DataError

_RAISED = re.compile(r"\bDataError: (.+?)(?=\nTraceback|\n\n|\Z)", re.DOTALL)
_LABEL = re.compile(r"Received a label value of [^\n]+? which is outside the valid range of \[[^)\n]+\)")
_IN_PIPELINE = re.compile(r"\bIterator::Root\b|\bIteratorGetNext\b|\bMultiDeviceIteratorGetNextFromShard\b")
_PROBLEM = re.compile(r"(?:\{\{function_node [^}]*\}\} )?(?P<problem>[^\n]+)\n\s+\[\[\{\{node ")
_OF_PYTHON = re.compile(
    r"(?:\biterator: \S+: |^)(?:\{\{function_node [^}]*\}\} )?(?P<problem>[A-Za-z_][\w.]*:[^\n]*(?:\n[^\n]+)*?)\n"
    r"Traceback \(most recent call last\):\n(?P<frames>.*)",
    re.DOTALL | re.MULTILINE,
)
_FRAME = re.compile(r'^  File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
_BY_DATA = (
    tf.errors.InvalidArgumentError,
    tf.errors.DataLossError,
    tf.errors.NotFoundError,
    tf.errors.PermissionDeniedError,
    tf.errors.UnimplementedError,
    tf.errors.UnknownError,
)
"""Types of what a pipeline raises about its data. The end of the data, a lost peer and a full memory have others."""


def data_error_in(error: BaseException) -> DataError | None:
    """Returns the `DataError` that `error` stands for, with its file and record where they are known.

    Args:
        error: What `fit`, `evaluate`, `predict` or a dataset's iterator raised.

    Returns:
        None where `error` is not about the data.
    """
    if isinstance(error, DataError):
        return error
    if not isinstance(error, _BY_DATA):
        return None
    text = str(error.message)
    if raised := _RAISED.search(text):
        return DataError(raised[1].strip())
    if label := _LABEL.search(text):
        return DataError(f"The labels do not fit the model's output. {label[0]}.")
    if _IN_PIPELINE.search(text):
        return fault_in(text) or DataError(f"Reading the data failed{_python_problem_in(text) or _problem_in(text)}")
    return None


def _python_problem_in(text: str) -> str | None:
    """Returns what a function of the user's own raised in the pipeline, in all its lines, and where."""
    raised = _OF_PYTHON.search(text)
    if raised is None:
        return None
    frames = list(_FRAME.finditer(raised["frames"]))
    place = f" in {frames[-1]['function']} ({frames[-1]['file']}:{frames[-1]['line']})" if frames else ""
    return f"{place}: {raised['problem'].strip()}"


def _problem_in(text: str) -> str:
    problem = _PROBLEM.search(text)
    return f": {problem['problem'] if problem else text}"
