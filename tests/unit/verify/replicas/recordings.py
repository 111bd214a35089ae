"""Recordings made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfdist.training.probes.probe_files import Moment, Recording

NO_FACTS: dict[str, Any] = {
    "unsynchronized": [],
    "overrides": [],
    "compute_dtypes": ["float32"],
    "non_trainable": [],
    "accumulates": False,
    "jit_compile": False,
    "steps_per_execution": 1,
    "epoch_steps": None,
}


def weights(**values: Any) -> dict[str, np.ndarray]:
    return {name: np.atleast_1d(np.asarray(value, np.float32)) for name, value in values.items()}


def step(
    number: int = 1, loss: float = 1.0, norm: float | None = 2.0, data: float | None = 3.0, **changes: Any
) -> Moment:
    """A moment after a step, of a model with a kernel and a bias."""
    fields = {"values": {"loss": loss}, "weights": weights(kernel=[1.0, -1.0], bias=0.5), **changes}
    return Moment(number, 0, gradient_norm=norm, data=data, **fields)


def begin(**changes: Any) -> Moment:
    """The moment before the first step."""
    return Moment(0, 0, **{"weights": weights(kernel=[1.0, -1.0], bias=0.5), **changes})


def recording(*moments: Moment, **facts: Any) -> Recording:
    return Recording({"gpus": 0, "replicas": 1, "models": [{**NO_FACTS, **facts}]}, moments)
