"""A function that parses a record or decodes an image, and which it failed on: TensorFlow's error names none.

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

from tfdist.errors import DataError
from tfdist.runtime.distribute import no_autotune_options

REMEMBERED_BATCHES = 32
"""More than are read ahead of the one that is parsed, by eight replicas of a worker."""

SEARCH_SECONDS = 60.0
"""The search ends without a result after so long; what failed is said in any case."""

_AROUND = re.compile(r"^(Error in user-defined function .*? with iterator: [\w:\[\]]+: )?(Name: <unknown>, )?")
"""What TensorFlow puts before a complaint: where it arose, and that nobody gave the record a name."""

_SCOPE = re.compile(r"\btfdist_parse_(\d+)")


class RecordParser:
    """A function that makes a sample of what was read of it, and the search for the sample on which it failed.

    Args:
        parse: From what was read of one sample to the sample, in TensorFlow's operations.
        read: From numbers of samples, int64 [k], to the arguments of `parse`, each [k].
        told: From the number of a sample and the reason to the error.
        batched: Whether `parse` makes a batch of samples of as many that were read.
    """

    def __init__(
        self,
        parse: Callable[..., Any],
        read: Callable[[NDArray[np.int64]], tuple[Any, ...]],
        told: Callable[[int, str], DataError],
        batched: bool = False,
    ) -> None:
        self._parse, self._read, self._told, self._batched = parse, read, told, batched
        self._last: deque[NDArray[np.int64]] = deque(maxlen=REMEMBERED_BATCHES)
        under_way = _under_way()
        self._number = max(under_way, default=0) + 1
        under_way[self._number] = self

    def note(self, numbers: NDArray[np.int64]) -> None:
        """Remembers the numbers of a batch that is read, int64 [k]."""
        self._last.append(numbers)

    def parse(self, *read: tf.Tensor) -> Any:
        """The sample, or samples, of what was read."""
        with tf.name_scope(f"tfdist_parse_{self._number}"):
            return self._parse(*read)

    def fault(self) -> DataError | None:
        """Finds a sample that does not parse, in what was read last and then before; None where none is found."""
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
                return self._told(int(numbers[whole]), reason_of(error))
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
def _under_way() -> WeakValueDictionary[int, RecordParser]:
    """Those of this process, by the numbers in their scopes."""
    return WeakValueDictionary()


def reason_of(error: tf.errors.OpError) -> str:
    """What an operation complains of, without where in the graph it stands."""
    return _AROUND.sub("", str(error.message).rpartition("}} ")[2].partition("\n")[0].partition(" [Op:")[0])
