"""Calls of TensorFlow's file systems that may go over a network, such as `gs://`: waited for, for a bounded time.

TensorFlow tries a bucket that does not answer again and again, for many minutes and without a word: ten times for each
of several requests that one call makes. So a call runs in a thread, and who asked waits for it no longer than a bound.
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
"""How long one call is waited for."""

_NUMBERS = {
    tf.errors.DATA_LOSS: errno.EIO,
    tf.errors.NOT_FOUND: errno.ENOENT,
    tf.errors.PERMISSION_DENIED: errno.EACCES,
    tf.errors.UNAUTHENTICATED: errno.EACCES,
    tf.errors.RESOURCE_EXHAUSTED: errno.ENOSPC,
    tf.errors.ALREADY_EXISTS: errno.EEXIST,
}


def bounded_call(url: str, call: Callable[[], T]) -> T:
    """What a call returns.

    Args:
        url: What it is about.
        call: Of `tf.io.gfile`. It may go on in its thread when it is waited for no longer.

    Raises:
        OSError: It failed, with the number that the system has for such a failure: EREMOTEIO for those it has none for.
        TimeoutError: There was no answer.
    """
    answer: futures.Future[T] = futures.Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # the one who waits raises it
            answer.set_exception(error)

    threading.Thread(target=run, name="tfdist-remote", daemon=True).start()
    try:
        return answer.result(ANSWER_SECONDS)
    except futures.TimeoutError as error:
        raise TimeoutError(errno.ETIMEDOUT, f"no answer within {ANSWER_SECONDS:g} s", url) from error
    except tf.errors.OpError as error:
        raise as_os_error(url, error) from error


def as_os_error(url: str, error: tf.errors.OpError) -> OSError:
    """The system's error that says the same."""
    said = " ".join(error.message.split())
    return OSError(_NUMBERS.get(error.error_code, errno.EREMOTEIO), said, url)
