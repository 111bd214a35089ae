"""Runs cases as one ordinary script and writes their outcomes: `python -m tests.exactness OUT SAMPLES [CASE ...]`.

Worker I of several writes to OUT with `.I` behind it, so that a test sees that all have the same numbers: a line for
each case, as soon as it is done. A case that raises is an outcome, too: `{"raised": "..."}`.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tests.exactness.cases import CASES, is_evaluated_by_default, outcome
from tests.helpers.plain_graphs import leave_graphs_plain


def main(out: str, samples: str, *names: str) -> None:
    write_outcomes(out, names or tuple(CASES), lambda name: compared_outcome(name, int(samples)))


def compared_outcome(name: str, samples: int) -> dict[str, Any]:
    """The outcome of a case as far as the tests compare it that run now."""
    is_slow = bool(os.environ.get("TFDIST_SLOW_TESTS"))
    return outcome(name, samples, of_training_alone=not is_slow and not is_evaluated_by_default(name))


def write_outcomes(out: str, names: Sequence[str], make: Callable[[str], dict[str, Any]]) -> None:
    """Writes what `make` gives for each name, as this worker's part of an outcome."""
    write_outcomes_together(out, [[name] for name in names], lambda one: {name: make(name) for name in one})


def write_outcomes_together(
    out: str, groups: Iterable[Sequence[str]], make: Callable[[Sequence[str]], dict[str, dict[str, Any]]]
) -> None:
    """Writes what `make` gives for the names of each group, which are measured together: what raises is that of all."""
    leave_graphs_plain()
    index = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("index", 0)
    with open(f"{out}.{index}", "w", encoding="utf-8") as file:
        for names in groups:
            for outcome_of_name in _outcomes(names, make).items():
                result = json.dumps(outcome_of_name, default=lambda value: np.asarray(value).tolist())
                print(result, file=file, flush=True)


def _outcomes(
    names: Sequence[str], make: Callable[[Sequence[str]], dict[str, dict[str, Any]]]
) -> dict[str, dict[str, Any]]:
    try:
        return make(names)
    except Exception:  # The other cases are to be run as well.
        return dict.fromkeys(names, {"raised": traceback.format_exc()})


if __name__ == "__main__":
    main(*sys.argv[1:])
