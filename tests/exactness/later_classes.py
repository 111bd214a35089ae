"""What a later Keras than the lowest supported one has brought: the tests that need it run from there on."""

from __future__ import annotations

from collections.abc import Mapping

from tests.exactness.keras_classes.exported import MODULES
from tfdist.keras_repairs.base.keras_differences import is_from

SINCE: Mapping[str, str] = {
    "callbacks.OrbaxCheckpoint": "3.14",
    "callbacks.TerminateOnNaN(raise_error=True)": "3.13",
    **{f"layers.Adaptive{kind}Pooling{n}D": "3.13" for kind in ("Average", "Max") for n in (1, 2, 3)},
    "layers.BatchNormalization(renorm=True)": "3.14",
    "layers.ContrastLimitedAdaptiveHistogramEqualization": "3.14",
    "optimizers.MultiOptimizer": "3.15",
    "optimizers.OptimizerMap": "3.15",
    "optimizers.ScheduleFreeAdamW": "3.14",
}
"""Class, or call with an option -> the first version that has it."""

WORKS_SINCE: Mapping[str, str] = {"optimizers.Muon": "3.13"}
"""Class that an earlier version has, and that raises there -> the first version in which it works on TensorFlow."""


def has(name: str) -> bool:
    """Whether this Keras has a class, such as `layers.Dense`, or an option, and it works on TensorFlow."""
    return is_from({**SINCE, **WORKS_SINCE}.get(name, "3.0"))


def broken() -> list[str]:
    """The layers, losses, metrics and optimizers of this Keras that do not work."""
    return [name for name in WORKS_SINCE if name.split(".")[0] in MODULES and not has(name)]
