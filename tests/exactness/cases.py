"""What people fit with Keras: one function a feature, each an ordinary script that knows nothing of replicas."""

from __future__ import annotations

from tests.exactness import (
    callback_cases,
    data_cases,
    fit_cases,
    layer_cases,
    loss_cases,
    metric_cases,
    optimizer_cases,
    precision_cases,
    step_cases,
)
from tests.exactness.table import CASES, Case, outcome

__all__ = ["BY_DEFAULT", "CASES", "SECTIONS", "cases_of", "names_by_default", "outcome"]

SECTIONS = {
    "Fit, evaluate, predict": fit_cases,
    "Data": data_cases,
    "Losses": loss_cases,
    "Metrics": metric_cases,
    "Optimizers and gradients": optimizer_cases,
    "Steps": step_cases,
    "Layers": layer_cases,
    "Callbacks": callback_cases,
    "Precision": precision_cases,
}
"""The modules of the cases, in the order of the documentation."""


_ON_WORKERS = ["Fit, evaluate, predict", "Data", "Callbacks"]
BY_DEFAULT = {
    "devices": [section for section in SECTIONS if section not in _ON_WORKERS],
    "workers": _ON_WORKERS,
}
"""The sections that are compared in the default tests: where workers differ from devices, on workers, the others on
devices. The slow tests compare all on both.
"""


def names_by_default(strategy: str) -> list[str]:
    """The cases that the default tests compare on "devices" or "workers"."""
    return [case.name for section in BY_DEFAULT[strategy] for case in cases_of(section)]


def cases_of(section: str) -> list[Case]:
    """The cases of one section, in the order of its module."""
    module = SECTIONS[section].__name__
    return [case for case in CASES.values() if case.make.__module__ == module]
