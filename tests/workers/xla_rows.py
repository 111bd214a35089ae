"""Rows of the table of exactness, each with what was said of XLA.

    python -m tests.workers.xla_rows OUT SAMPLES NAME ...
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from tests.exactness.__main__ import write_outcomes
from tests.exactness.cases import outcome
from tfdist.keras_repairs.base.warn_once import say_once

SAID = "said of XLA"

EVALUATED = {"plain", "own_train_step_and_test_step"}
"""Rows with which the default tests evaluate and predict; XLA takes as long for those two functions as for the step."""


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
    is_whole = bool(os.environ.get("TFDIST_SLOW_TESTS")) or name in EVALUATED
    try:
        found = outcome(name, samples, of_training_alone=not is_whole)
    finally:
        log.removeHandler(messages)
    return {**found, SAID: [text for text in messages.texts if "XLA" in text]}


if __name__ == "__main__":
    main(*sys.argv[1:])
