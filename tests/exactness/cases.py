"""What people fit with Keras: one function a feature, each an ordinary script that knows nothing of replicas."""

from __future__ import annotations

from tests.exactness import data_cases, fit_cases, layer_cases, loss_cases, metric_cases, optimizer_cases, step_cases
from tests.exactness.table import CASES, outcome

__all__ = ["CASES", "MODULES", "outcome"]

MODULES = (fit_cases, data_cases, loss_cases, metric_cases, optimizer_cases, step_cases, layer_cases)
"""The modules of the cases, in the order of the documentation."""
