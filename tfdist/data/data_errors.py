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
        problem = _PROBLEM.search(text)
        return fault_in(text) or DataError(f"Reading the data failed: {problem['problem'] if problem else text}")
    return None
