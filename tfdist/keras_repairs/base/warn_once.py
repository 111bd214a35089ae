"""Messages that are logged once a process, not once a step."""

from __future__ import annotations

import functools
import logging


@functools.cache
def warn_once(message: str) -> None:
    """Logs `message` as a warning the first time it is given in this process."""
    logging.getLogger("tfdist").warning(message)


@functools.cache
def say_once(message: str) -> None:
    """Logs `message` for information the first time it is given in this process."""
    logging.getLogger("tfdist").info(message)
