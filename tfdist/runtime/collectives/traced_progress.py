"""Progress of traced collectives, which run inside of functions where Python sees nothing of them."""

from __future__ import annotations

import tensorflow as tf

from tfdist.runtime.local_variables import local_variables


class TracedProgress:
    """Counts the traced collectives that have begun and those for which all workers have come.

    It costs a call two additions to variables, which belong to this worker alone.
    """

    def __init__(self) -> None:
        with tf.init_scope(), tf.device("CPU:0"), local_variables():
            self._begun, self._ended = (tf.Variable(0, dtype=tf.int64, trainable=False) for _ in range(2))

    def begin(self) -> None:
        """Counts a collective that begins; call it while the function is traced."""
        with tf.device("CPU:0"):
            self._begun.assign_add(1, read_value=False)

    def end(self) -> None:
        """Counts that all have come to it."""
        with tf.device("CPU:0"):
            self._ended.assign_add(1, read_value=False)

    def read(self) -> tuple[int, int]:
        """How many have begun and ended; call it in any thread."""
        with tf.device("CPU:0"):
            # In this order, one that begins and ends in between is not seen as under way.
            begun = int(self._begun.numpy())
            return begun, int(self._ended.numpy())
