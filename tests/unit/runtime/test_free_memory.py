"""Memory that was freed between blocks in use goes back to the system."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from tfdist.runtime import free_memory

BLOCKS, SIZE = 1000, 100_000
"""Blocks below the size from which the C library asks the system for each alone."""


def resident() -> int:
    """Returns the bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library is not glibc")
def test_what_lies_between_blocks_in_use_is_returned() -> None:
    blocks = [bytearray(b"x") * SIZE for _ in range(BLOCKS)]
    in_use = blocks[9::10]
    del blocks
    before = resident()
    free_memory.return_free_memory()
    assert before - resident() > BLOCKS * SIZE / 2
    assert all(block[-1] == ord("x") for block in in_use)


def test_nothing_happens_with_another_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    free_memory.return_free_memory()
