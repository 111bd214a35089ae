"""What `tfdist prune` prints of what was measured."""

from __future__ import annotations

from typing import Any

from tfdist.inference.pruning_table import render


def layer(name: str, before: list[int], after: list[int], weights: int, left: int) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "Dense",
        "shape_before": before,
        "shape_after": after,
        "weights": weights,
        "left": left,
    }


def result(**changes: Any) -> dict[str, Any]:
    sizes = {"bytes": 10_000, "compressed_bytes": 9000, "weight_bytes": 8000, "sample_ms": 2.0}
    return {
        "structure": "channels",
        "sparsity": 0.505,
        "samples": 360,
        "metric": "accuracy",
        "before": {"metrics": {"accuracy": 0.9, "loss": 0.5}, **sizes},
        "after": {"metrics": {"accuracy": 0.89, "loss": 0.6}, **sizes, "compressed_bytes": 4500, "sample_ms": 1.0},
        "drop": 0.01,
        "max_drop": "2%",
        "held": True,
        "shows_nothing": "",
        "output": "/a/pruned.keras",
        "kept_channels": {"last": "is read by the operation add"},
        "layers": [layer("wide", [4, 8], [4, 4], 32, 16), layer("last", [8, 3], [8, 3], 24, 12)],
        **changes,
    }


def test_a_model_before_and_after() -> None:
    assert render(result()).splitlines() == [
        "                before    after  change",
        "loss               0.5      0.6    +0.1",
        "accuracy           0.9     0.89   -0.01",
        "file           10.0 kB  10.0 kB     +0%",
        "file, gzipped  9.00 kB  4.50 kB    -50%",
        "weights        8.00 kB  8.00 kB     +0%",
        "one sample        2 ms     1 ms    -50%",
        "",
        "layer  class  kernel          weights  left  sparsity",
        "wide   Dense  4x8     -> 4x4       32    16     50.0%",
        "last   Dense  8x3                  24    12     50.0%",
        "",
        "last keeps its pruned channels, as zeros: it is read by the operation add.",
        "accuracy is 0.01 worse, with a budget of 2%, on 360 samples.",
        "channels, sparsity 50.5%: /a/pruned.keras, 10.0 kB",
    ]


def test_a_budget_that_is_exceeded() -> None:
    lines = render(result(held=False, output=None)).splitlines()
    assert lines[-1].startswith("The budget is exceeded, and nothing was made.")
