"""Messages that are logged once a process, not once a step."""

from __future__ import annotations

import functools
import logging

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.runtime.strategy_settings import settings_of


@functools.cache
def warn_once(message: str) -> None:
    """Logs the first time in this process what is not exact, or costs more than it need.

    Raises:
        UnsupportedError: The run has `--strict`.
    """
    if settings_of(tf.distribute.get_strategy()).strict:
        raise UnsupportedError(f"{message} That is refused with --strict, and a warning without.")
    logging.getLogger("tfdist").warning(message)


@functools.cache
def point_out_once(message: str) -> None:
    """Logs the first time in this process what may be meant otherwise, and is not refused with `--strict`."""
    logging.getLogger("tfdist").warning(message)


@functools.cache
def say_once(message: str) -> None:
    """Logs `message` for information the first time it is given in this process."""
    logging.getLogger("tfdist").info(message)
