"""Properties of readers: tried with the same few examples in every run, or with as many as fit into a time by hand."""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

MINUTES = float(os.environ.get("TFDIST_FUZZ_MINUTES") or 0)
"""How long each property is tried; 0 for the few examples that every run tries."""

MEMORY = 1 << 30
"""Bytes that the examples of a property may take."""

PROCESSOR_SECONDS = 10.0
"""What one example may take of the processor; the slowest take a tenth of it."""

_BATCH = 50
"""Examples after which the time is looked at."""

_EXTRA_SECONDS = 600.0

Property = Callable[..., None]


def fuzzed(examples: int, **drawn: SearchStrategy[Any]) -> Callable[[Property], Property]:
    """Makes a test of a property.

    Args:
        examples: How many every run tries.
        **drawn: What the test's arguments are drawn from; others are fixtures.
    """

    def decorate(test: Property) -> Property:
        bounded = _bounded(test)
        if not MINUTES:
            return _settings(max_examples=examples, derandomize=True)(given(**drawn)(bounded))
        return pytest.mark.bound(60 * MINUTES + _EXTRA_SECONDS)(_tried_for(MINUTES, bounded, drawn))

    return decorate


def _settings(**chosen: Any) -> settings:
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
    # Without the explanations of failures, which trace every line.
    phases = (Phase.generate, Phase.shrink)
    return settings(deadline=None, database=None, phases=phases, suppress_health_check=checks, **chosen)


def _tried_for(minutes: float, test: Property, drawn: dict[str, SearchStrategy[Any]]) -> Property:
    count = 0

    @functools.wraps(test)
    def counted(*args: Any, **kwargs: Any) -> None:
        nonlocal count
        count += 1
        test(*args, **kwargs)

    shape = given(**drawn)(test)

    # Not its attributes: they would make this a test of Hypothesis' own, which is tried once.
    @functools.wraps(shape, updated=())
    def tried(**fixtures: Any) -> None:
        begun = time.monotonic()
        while time.monotonic() < begun + 60 * minutes:
            _settings(max_examples=_BATCH, derandomize=False)(given(**drawn)(counted))(**fixtures)
        print(f"\n{test.__module__}.{test.__name__}: {count:,} examples in {time.monotonic() - begun:,.0f} s")

    return tried


def _bounded(test: Property) -> Property:
    @functools.wraps(test)
    def bounded(*args: Any, **kwargs: Any) -> None:
        with bounds():
            test(*args, **kwargs)

    return bounded


@contextlib.contextmanager
def bounds() -> Iterator[None]:
    """Fails what takes too long of the processor; what would take too much memory gets none."""

    def expire(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"took more than {PROCESSOR_SECONDS:g} s of the processor")

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    memory = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, expire)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, memory[1]))
    signal.setitimer(signal.ITIMER_PROF, PROCESSOR_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, memory)
        signal.signal(signal.SIGPROF, before)
