"""What the comparisons leave for the table of the documentation, when it is asked for.

With TFDIST_MATRIX_RESULTS=DIR every comparison writes one file there, whether it passed or failed.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

STRATEGIES = ("devices", "workers")
COUNTS = (2, 3)
SIZES = (64, 65)
"""Samples, in batches of 32: with 65 the last batch is one sample, and all replicas but one have none."""


@dataclass(frozen=True)
class Comparison:
    """One case on several replicas, compared with one.

    Attributes:
        case: Its name.
        strategy: "devices" of one process, or "workers".
        count: How many of them.
        samples: How many the case was given.
    """

    case: str
    strategy: str
    count: int
    samples: int

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ValueError(f"A strategy is one of {STRATEGIES}. Received: {self.strategy!r}")


@dataclass(frozen=True)
class Result:
    """What a comparison gave, and with what.

    Attributes:
        comparison: Which.
        passed: Whether the numbers were the same.
        tensorflow: The version.
        keras: The version.
    """

    comparison: Comparison
    passed: bool
    tensorflow: str
    keras: str


@contextlib.contextmanager
def recorded(comparison: Comparison) -> Iterator[None]:
    """Notes whether the code inside, which compares, raises."""
    passed = False
    try:
        yield
        passed = True
    finally:
        if folder := os.environ.get("TFDIST_MATRIX_RESULTS"):
            _write(comparison, passed, Path(folder))


def read(folder: Path) -> Iterable[Result]:
    """Every result in `folder`."""
    for file in sorted(folder.glob("*.json")):
        fields = json.loads(file.read_text())
        yield Result(**{**fields, "comparison": Comparison(**fields["comparison"])})


def _write(comparison: Comparison, passed: bool, folder: Path) -> None:
    import keras
    import tensorflow as tf

    folder.mkdir(parents=True, exist_ok=True)
    result = Result(comparison, passed, tf.__version__, keras.__version__)
    name = f"{comparison.case}-{comparison.count}-{comparison.strategy}-{comparison.samples}.json"
    (folder / name).write_text(json.dumps(asdict(result), indent=1))
