"""Runs cases as one ordinary script and writes their outcomes: `python -m tests.exactness OUT SAMPLES [CASE ...]`.

Worker I of several writes to OUT with `.I` behind it, so that a test sees that all have the same numbers: a line for
each case, as soon as it is done. A case that raises is an outcome, too: `{"raised": "..."}`.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.exactness.cases import CASES, outcome


def main(out: str, samples: str, *names: str) -> None:
    write_outcomes(out, names or tuple(CASES), lambda name: outcome(name, int(samples)))


def write_outcomes(out: str, names: Sequence[str], make: Callable[[str], dict[str, Any]]) -> None:
    """Writes what `make` gives for each name, as this worker's part of an outcome."""
    index = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("index", 0)
    with open(f"{out}.{index}", "w", encoding="utf-8") as file:
        for name in names:
            result = json.dumps([name, _outcome(name, make)], default=lambda value: np.asarray(value).tolist())
            print(result, file=file, flush=True)


def _outcome(name: str, make: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    try:
        return make(name)
    except Exception:  # The other cases are to be run as well.
        return {"raised": traceback.format_exc()}


if __name__ == "__main__":
    main(*sys.argv[1:])
