"""How many files and sockets this process may have open."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def descriptors(count: int) -> Iterator[None]:
    """Lets this process have `count` open, where shells begin with 1,024; skips the test where it may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"a process may have {hard} descriptors here, and this needs {count}")
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
