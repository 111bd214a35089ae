"""The user's function that parses a record, and the record it failed on: TensorFlow's error about it names none.

The operations of each such function stand in a name scope of its own, which the error does name. From that the function
and the numbers of the batches read last are found, and these are parsed once more, until one fails again.
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

from tfdist.data.record_reader import Block
from tfdist.data.sequential_tfrecords import TFRecords
from tfdist.errors import DataError
from tfdist.runtime.feeding import no_autotune_options

REMEMBERED_BATCHES = 32
"""More than are read ahead of the one that is parsed, by eight replicas of a worker."""

SEARCH_SECONDS = 60.0
"""The search ends without a result after so long; what failed is said in any case."""

_SCOPE = re.compile(r"\btfdist_parse_(\d+)")


class Parsing:
    """Reads records for a function that parses them, and knows which record it failed on.

    Args:
        reader: Of the records.
        parse: From one record, a string scalar, to a sample, in TensorFlow's operations.
    """

    def __init__(self, reader: TFRecords, parse: Callable[[tf.Tensor], Any]) -> None:
        self._reader = reader
        self._parse = parse
        self._last: deque[NDArray[np.int64]] = deque(maxlen=REMEMBERED_BATCHES)
        under_way = _under_way()
        self._number = max(under_way, default=0) + 1
        under_way[self._number] = self

    def read(self, numbers: NDArray[np.int64]) -> Block:
        """See `TFRecordReader.read`."""
        self._last.append(numbers)
        return self._reader.read(numbers)

    def parse(self, record: tf.Tensor) -> Any:
        """The sample of a record."""
        with tf.name_scope(f"tfdist_parse_{self._number}"):
            return self._parse(record)

    def fault(self) -> DataError | None:
        """Finds the first of the records read last that does not parse; None where none is found."""
        ends = time.monotonic() + SEARCH_SECONDS
        for numbers in tuple(self._last):
            records = self._reader.read(numbers).cut()
            parsed = tf.data.Dataset.from_tensor_slices(records).map(self._parse).with_options(no_autotune_options())
            parsing, whole = iter(parsed), 0
            try:
                while next(parsing, None) is not None:
                    whole += 1
                    if time.monotonic() > ends:
                        return None
            except tf.errors.OpError as error:
                (name,) = self._reader.names(numbers[whole : whole + 1])
                return DataError(f"{name} does not fit the parse function: {_reason(error)}")
        return None


def fault_in(text: str) -> DataError | None:
    """The error for the record that a function could not parse.

    Args:
        text: Of TensorFlow's error.

    Returns:
        None when it is about something else, or the record cannot be found.
    """
    found = _SCOPE.search(text)
    parsing = _under_way().get(int(found[1])) if found else None
    return None if parsing is None else parsing.fault()


@functools.cache
def _under_way() -> WeakValueDictionary[int, Parsing]:
    """Those of this process, by the numbers in their scopes."""
    return WeakValueDictionary()


def _reason(error: tf.errors.OpError) -> str:
    """What an operation complains of, without where in the graph it stands."""
    return str(error.message).rpartition("}} ")[2].partition("\n")[0].partition(" [Op:")[0]
