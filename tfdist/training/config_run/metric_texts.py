"""Metrics as texts, in the order in which they are shown. Pure."""

from __future__ import annotations

from collections.abc import Mapping

_SMALL = 1e-3


def metric_texts(values: Mapping[str, float]) -> dict[str, str]:
    """`{"loss": "0.1234", "accuracy": "0.9812"}`: losses first, training before validation."""
    ordered = sorted(values, key=lambda name: (name.startswith("val_"), not name.endswith("loss")))
    return {name: _text(values[name]) for name in ordered}


def metrics_line(values: Mapping[str, float]) -> str:
    """`loss 0.1234  accuracy 0.9812`: the metrics of one epoch."""
    return "  ".join(f"{name} {text}" for name, text in metric_texts(values).items())


def _text(value: float) -> str:
    return f"{value:.3e}" if 0 < abs(value) < _SMALL else f"{value:.4f}"
