"""Progress of traced collectives, which run inside of functions where the script's own thread sees nothing of them."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

import tensorflow as tf

from tfdist.runtime.thread_frames import frames_of_other_threads
from tfdist.runtime.workers import local_variables

_TENSORFLOW = os.path.join(os.path.dirname(tf.__file__), "")


class TracedProgress:
    """Counts the traced collectives that have begun and those for which all workers have come, or that have failed.

    Those that run in Python are counted there, so that one that fails has ended, too, and one that its function never
    comes to has not begun. TensorFlow's own cost two additions to variables, which belong to this worker alone. A
    function that fails between the two leaves them apart for ever, so they count only while a thread is in TensorFlow.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun_in_python = self._ended_in_python = 0
        with tf.init_scope(), tf.device("CPU:0"), local_variables():
            self._begun, self._ended = (tf.Variable(0, dtype=tf.int64, trainable=False) for _ in range(2))

    @contextlib.contextmanager
    def exchanging(self) -> Iterator[None]:
        """Around a collective of Python while it runs, in whatever thread."""
        with self._lock:
            self._begun_in_python += 1
        try:
            yield
        finally:
            with self._lock:
                self._ended_in_python += 1

    def begin(self) -> None:
        """Counts a collective of TensorFlow that begins; call it while the function is traced."""
        with tf.device("CPU:0"):
            self._begun.assign_add(1, read_value=False)

    def end(self) -> None:
        """Counts that all have come to it."""
        with tf.device("CPU:0"):
            self._ended.assign_add(1, read_value=False)

    def read(self) -> tuple[int, int]:
        """Returns how many have begun and ended; call it in any thread. Of TensorFlow 1's graphs those in Python
        alone."""
        begun = ended = 0
        # A script that switches eager execution off, `tf.compat.v1.disable_v2_behavior()`, leaves no values to read.
        if tf.executing_eagerly():
            with tf.device("CPU:0"):
                # In this order, one that begins and ends in between is not seen as under way.
                begun = int(self._begun.numpy())
                ended = int(self._ended.numpy())
        if begun > ended and not _is_in_tensorflow():
            ended = begun
        with self._lock:
            return begun + self._begun_in_python, ended + self._ended_in_python


def _is_in_tensorflow() -> bool:
    """Returns whether another thread waits for TensorFlow: the innermost line of Python that it is at is one of
    TensorFlow."""
    return any(frame.f_code.co_filename.startswith(_TENSORFLOW) for frame in frames_of_other_threads().values())
