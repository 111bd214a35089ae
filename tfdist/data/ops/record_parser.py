"""Parser of records or images, which finds the one that it failed on: TensorFlow's error does not name it.

The operations of each parser are in a name scope of their own, which the error does name. That leads to the parser and
the numbers of the batches that it read last, and these are parsed once more until one fails again.
"""

from __future__ import annotations

import functools
import re
import time
from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.errors import DataError
from tfdist.runtime.batches.replica_batches import no_autotune_options

REMEMBERED_BATCHES = 32
"""Batches whose numbers are kept: more than eight replicas of a worker read ahead."""

SEARCH_SECONDS = 60.0
"""The search ends without a result after so long; the error is raised in any case."""

_AROUND = re.compile(r"^(Error in user-defined function .*? with iterator: [\w:\[\]]+: )?(Name: <unknown>, )?")
"""The text that TensorFlow puts before the reason: where it arose, and that the record has no name."""

_SCOPE = re.compile(r"\btfdist_parse_(\d+)")


class RecordParser:
    """A function that makes samples of what was read, and the search for the sample on which it failed.

    Args:
        parse: From what was read of one sample to the sample, in TensorFlow's operations.
        read: From numbers of samples, int64 [k], to the arguments of `parse`, each [k].
        misfit: From the number of a sample and the reason to the error.
        batched: Whether `parse` takes what was read of a batch and makes a batch of samples.
    """

    def __init__(
        self,
        parse: Callable[..., Any],
        read: Callable[[NDArray[np.int64]], tuple[Any, ...]],
        misfit: Callable[[int, str], DataError],
        batched: bool = False,
    ) -> None:
        self._parse, self._read, self._misfit, self._batched = parse, read, misfit, batched
        self._last: deque[NDArray[np.int64]] = deque(maxlen=REMEMBERED_BATCHES)
        under_way = _under_way()
        self._number = max(under_way, default=0) + 1
        under_way[self._number] = self

    def note(self, numbers: NDArray[np.int64]) -> None:
        """Notes the numbers of a batch that is read, int64 [k]."""
        self._last.append(numbers)

    def parse(self, *read: tf.Tensor) -> Any:
        """Returns the sample, or samples, of what was read."""
        with tf.name_scope(f"tfdist_parse_{self._number}"):
            return self._parse(*read)

    def fault(self) -> DataError | None:
        """Searches backwards in what was read for a sample that does not parse; None where none is found."""
        ends = time.monotonic() + SEARCH_SECONDS
        for numbers in reversed(tuple(self._last)):
            read = tf.data.Dataset.from_tensor_slices(self._read(numbers))
            single = read.batch(1) if self._batched else read
            parsing, whole = iter(single.map(self._parse).with_options(no_autotune_options())), 0
            try:
                while next(parsing, None) is not None:
                    whole += 1
                    if time.monotonic() > ends:
                        return None
            except tf.errors.OpError as error:
                return self._misfit(int(numbers[whole]), reason_of(error))
        return None


def fault_in(text: str) -> DataError | None:
    """Returns the error that names the record which a parser failed on.

    Args:
        text: The text of TensorFlow's error.

    Returns:
        None where the error is about something else, or the record is not found.
    """
    found = _SCOPE.search(text)
    parsing = _under_way().get(int(found[1])) if found else None
    return None if parsing is None else parsing.fault()


@functools.cache
def _under_way() -> WeakValueDictionary[int, RecordParser]:
    """The parsers of this process, by the numbers in their scopes."""
    return WeakValueDictionary()


def reason_of(error: tf.errors.OpError) -> str:
    """The reason that an operation gives, without its place in the graph."""
    return _AROUND.sub("", str(error.message).rpartition("}} ")[2].partition("\n")[0].partition(" [Op:")[0])


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
