"""Memory that the process has freed and still holds."""

from __future__ import annotations

import ctypes


def return_free_memory() -> None:
    """Returns memory that was freed to the system, where the C library can do so, as glibc does.

    It holds on to what lies between blocks that are in use, hundreds of MiB after a large trace. This takes
    milliseconds, and what is needed again has to be asked for again: call it where much was freed, not in each step.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
