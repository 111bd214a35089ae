"""Bounded calls of TensorFlow's file systems that may go over a network, such as `gs://`.

TensorFlow silently retries a bucket that does not answer for many minutes: ten times for each of the several requests
of one call. Here a call runs in a thread, and the caller waits for it no longer than a bound.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from concurrent import futures
from typing import TypeVar

import tensorflow as tf

T = TypeVar("T")

ANSWER_SECONDS = 120.0
"""How long a caller waits for one call."""

_NUMBERS = {
    tf.errors.DATA_LOSS: errno.EIO,
    tf.errors.NOT_FOUND: errno.ENOENT,
    tf.errors.PERMISSION_DENIED: errno.EACCES,
    tf.errors.UNAUTHENTICATED: errno.EACCES,
    tf.errors.RESOURCE_EXHAUSTED: errno.ENOSPC,
    tf.errors.ALREADY_EXISTS: errno.EEXIST,
}


def bounded_call(url: str, call: Callable[[], T]) -> T:
    """Calls `call` in a thread and returns its result.

    Args:
        url: The file or folder, for messages.
        call: A call of `tf.io.gfile`. After a timeout it may continue in its thread.

    Raises:
        OSError: The call failed; with the system's number of such a failure, or EREMOTEIO where there is none.
        TimeoutError: There was no answer.
    """
    answer: futures.Future[T] = futures.Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # raised by the waiting thread
            answer.set_exception(error)

    threading.Thread(target=run, name="tfdist-remote", daemon=True).start()
    try:
        return answer.result(ANSWER_SECONDS)
    except futures.TimeoutError as error:
        raise TimeoutError(errno.ETIMEDOUT, f"no answer within {ANSWER_SECONDS:g} s", url) from error
    except tf.errors.OpError as error:
        raise as_os_error(url, error) from error


def as_os_error(url: str, error: tf.errors.OpError) -> OSError:
    """The OSError for an error of TensorFlow's."""
    said = " ".join(error.message.split())
    return OSError(_NUMBERS.get(error.error_code, errno.EREMOTEIO), said, url)
