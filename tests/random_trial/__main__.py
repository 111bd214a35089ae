"""`python -m tests.random_trial --seed N [--minutes N | --draws N | --show]`: tries draws from a seed on."""

from __future__ import annotations

import argparse
import math
import sys

from tests.random_trial.drawing import draw_of
from tests.random_trial.script import script_of
from tests.random_trial.trial import trial


def main() -> int:
    """Exits with 1 where something was found."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=1, help="the first; each draw has the next one")
    options.add_argument("--minutes", type=float, help="try as many draws as fit")
    options.add_argument("--draws", type=int, help="try so many; 1 unless --minutes is given")
    options.add_argument("--show", action="store_true", help="print the script of the seed, and try nothing")
    given = options.parse_args()
    if given.show:
        print(script_of(draw_of(given.seed)))
        return 0
    draws = given.draws if given.draws is not None or given.minutes is not None else 1
    report = trial(given.seed, math.inf if given.minutes is None else given.minutes, draws=draws)
    print(report)
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
