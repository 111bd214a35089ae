"""Runs cases as one ordinary script and writes their outcomes: `python -m tests.exactness OUT SAMPLES [CASE ...]`.

Worker I of several writes to OUT with `.I` behind it, so that a test sees that all have the same numbers.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np

from tests.exactness.cases import CASES, outcome


def main(out: str, samples: str, *names: str) -> None:
    index = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("index", 0)
    results = {name: outcome(name, int(samples)) for name in names or CASES}
    Path(f"{out}.{index}").write_text(json.dumps(results, default=lambda value: np.asarray(value).tolist()))


if __name__ == "__main__":
    main(*sys.argv[1:])
