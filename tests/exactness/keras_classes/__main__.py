"""Trains rows in an ordinary script: `python -m tests.exactness.keras_classes OUT SAMPLES [NAME ...]`.

Those of a group are trained together, so that one name is a class alone. Worker I writes to OUT with `.I` behind it, a
line for each row: its name and numbers, or `{"raised": "..."}`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from tests.exactness.__main__ import write_outcomes_together
from tests.exactness.keras_classes.outcomes import measured
from tests.exactness.keras_classes.table import ROWS, models_of


def main(out: str, samples: str, *names: str) -> None:
    def make(together: Sequence[str]) -> dict[str, dict[str, Any]]:
        return measured([ROWS[name] for name in together], int(samples))

    write_outcomes_together(out, [[row.name for row in rows] for rows in models_of(names or ROWS)], make)


if __name__ == "__main__":
    main(*sys.argv[1:])
