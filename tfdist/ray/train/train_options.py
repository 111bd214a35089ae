"""Options of a trainer's workers: those of `tfdist train` that mean something where Ray starts the workers."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

from tfdist.errors import UsageError
from tfdist.launch.worker_options import OF_COMPUTATION, WorkerOptions

NAMES = sorted((*OF_COMPUTATION, "first_step_timeout", "step_timeout"))


def worker_options(given: Mapping[str, Any]) -> WorkerOptions:
    """The options of all workers. A fit resumes from what is in the storage, as Ray's restarts want it.

    Raises:
        UsageError: There is no option of a name, or it does not take a value.
    """
    for name in given:
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(NAMES)}."
            raise UsageError(
                f"tfdist.ray.Trainer has no option {name!r}. {hint} Devices, restarts and storage are Ray's: "
                "scaling_config and run_config."
            )
    return dataclasses.replace(WorkerOptions(resume="auto"), **given)
