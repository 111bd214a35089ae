"""Trains each row in an ordinary script: `python -m tests.exactness.keras_classes OUT SAMPLES [NAME ...]`.

Worker I writes to OUT with `.I` behind it, a line for each row: its name and numbers, or `{"raised": "..."}`.
"""

from __future__ import annotations

import sys

from tests.exactness.__main__ import write_outcomes
from tests.exactness.keras_classes.outcomes import measured
from tests.exactness.keras_classes.table import ROWS


def main(out: str, samples: str, *names: str) -> None:
    write_outcomes(out, names or tuple(ROWS), lambda name: measured([ROWS[name]], int(samples))[name])


if __name__ == "__main__":
    main(*sys.argv[1:])
