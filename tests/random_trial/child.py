"""A process that tries seeds, one after another: `python -m tests.random_trial.child FIRST COUNT`.

It writes a line of JSON before and after each draw, and after a finding has been made smaller. It may hang or die with
what it tries: `trial` watches it.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import time
from typing import Any

import tensorflow as tf

from tests.random_trial.draw import Draw
from tests.random_trial.drawing import draw_of
from tests.random_trial.judging import Verdict, judge
from tests.random_trial.runs import LOGICAL_CPUS
from tests.random_trial.script import script_of
from tests.random_trial.shrinking import shrunken
from tfdist import keras_repairs

SHRINKING = 240.0
"""Seconds that making a finding smaller may take, but for the last try."""


def main(first: str, count: str) -> None:
    """Tries `count` seeds from `first` on."""
    faulthandler.enable()
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * LOGICAL_CPUS)
    keras_repairs.install()
    for seed in range(int(first), int(first) + int(count)):
        draw = draw_of(seed)
        _say(seed=seed, state="begun")
        verdict = judge(draw)
        if not verdict.kind.is_finding:
            _say(seed=seed, state="done", kind=verdict.kind, line=verdict.line)
            continue
        _say(seed=seed, state="found", kind=verdict.kind, line=verdict.line, details=verdict.details)
        smallest = _shrunken(draw, verdict)
        _say(seed=seed, state="done", kind=verdict.kind, line=verdict.line, script=script_of(smallest))


def _shrunken(draw: Draw, verdict: Verdict) -> Draw:
    until = time.monotonic() + SHRINKING

    def fails(simpler: Draw) -> bool:
        _say(seed=draw.seed, state="shrinking")
        return judge(simpler).is_like(verdict)

    return shrunken(draw, fails, lambda: time.monotonic() < until)


def _say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
