"""Imports of a large framework without collecting garbage: nothing of what they make is garbage."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected_imports() -> Iterator[None]:
    """No collection within, and none of what was made there ever after.

    TensorFlow and Keras make a quarter of a million objects that stay as long as the process. Python would look for
    cycles among them again and again while they are imported, which is a quarter of the time of that, and in each full
    collection of the training, which is 0.15 s each time.

    A process whose collection is off already keeps it so.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
