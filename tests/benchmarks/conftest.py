"""Benchmarks at their smallest: that they run is tested, not what they measure."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest


@pytest.fixture
def command_line(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets the arguments that a benchmark's `main` parses."""
    return lambda *arguments: monkeypatch.setattr(sys, "argv", ["a benchmark", *map(str, arguments)])


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[[], dict[str, float]]:
    """The last line that was printed, which is JSON."""
    return lambda: json.loads(capsys.readouterr().out.splitlines()[-1])
