"""Rows of the table of exactness, each with what was said of XLA.

    python -m tests.workers.xla_rows OUT SAMPLES NAME ...
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from tests.exactness.__main__ import compared_outcome, write_outcomes
from tfdist.keras_repairs.base.warn_once import say_once

SAID = "said of XLA"


class _Messages(logging.Handler):
    """What tfdist says while a row runs."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def main(out: str, samples: str, *names: str) -> None:
    write_outcomes(out, names, lambda name: row(name, int(samples)))


def row(name: str, samples: int) -> dict[str, Any]:
    """The outcome of a row, with what was said of XLA."""
    messages, log = _Messages(), logging.getLogger("tfdist")
    say_once.cache_clear()
    log.addHandler(messages)
    try:
        found = compared_outcome(name, samples)
    finally:
        log.removeHandler(messages)
    return {**found, SAID: [text for text in messages.texts if "XLA" in text]}


if __name__ == "__main__":
    main(*sys.argv[1:])
