"""Jobs of stand-in workers for a Slurm."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any


def stand_ins(**options: Any) -> tuple[str, ...]:
    """The command of a launcher with stand-in workers; see `tests.workers.stand_in_launcher`."""
    return (sys.executable, "-m", "tests.workers.stand_in_launcher", json.dumps(options))


def script(*command: str, **options: Any) -> str:
    """The command in a batch script: what Slurm has to run, and stand-ins there as a step of the job."""
    return f"#!/bin/sh\nexec {shlex.join([*command, *stand_ins(**options)])}\n"
