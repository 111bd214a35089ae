"""What `tfdist export` prints of an artefact in integers, which is judged by metrics."""

from __future__ import annotations

from typing import Any

from tfdist.inference.export_table import excess, next_step, render
from tfdist.training.artifacts.artifact_formats import FORMATS


def result(**changes: Any) -> dict[str, Any]:
    output = {"name": "label", "difference": 0.03, "sample": 4, "same_labels": 9, "labels": 10, "remark": ""}
    times = {"one": 0.001, "batch": 0.0005, "batch_size": 32}
    return {
        "outputs": [output],
        "runtime": "LiteRT 2.3.0",
        "keras": times,
        "artifact": times,
        "bytes": 20_000,
        "weights_bytes": 70_000,
        "samples": 10,
        "key": "data.validation",
        "tolerance": float("inf"),
        "metrics": {"keras": {"accuracy": 0.9, "loss": 0.5}, "artifact": {"accuracy": 0.8, "loss": 0.75}},
        "metric": "accuracy",
        "drop": 0.1,
        "max_drop": "1%",
        "held": False,
        "shows_nothing": "",
        "float_layers": ["'norm' (LayerNormalization)"],
        **changes,
    }


def test_metrics_of_both() -> None:
    assert render(result(), "made.tflite").splitlines() == [
        "made.tflite: 20.0 kB, of 70.0 kB of weights",
        "10 samples of data.validation, in LiteRT 2.3.0 beside Keras:",
        "  output  greatest difference  same label",
        "  label                  0.03     9 of 10",
        "  metric    Keras  LiteRT  change",
        "  loss        0.5    0.75   +0.25",
        "  accuracy    0.9     0.8    -0.1",
        "  milliseconds a sample  Keras  LiteRT",
        "  one at a time              1       1",
        "  in batches of 32         0.5     0.5",
        "  an operation of 'norm' (LayerNormalization) is computed in float: LiteRT has none in integers",
    ]


OTHER = "what was written is not what Keras computes: "


def test_what_is_beyond_the_budget_or_the_tolerance() -> None:
    assert excess(result()) == f"{OTHER}accuracy is 0.1 worse than Keras's, beyond --max-drop 1%"
    beyond = excess(result(held=True, tolerance=0.01))
    assert beyond == f"{OTHER}the output 'label' differs most: 0.03 in sample 4, beyond the tolerance of 0.01"


def test_what_nothing_could_be_beyond() -> None:
    why = "the output 'label' is NaN or infinite in all 10 samples"
    found = result(held=True, shows_nothing=why)
    assert f"  this shows nothing: {why}" in render(found, "made.tflite").splitlines()
    assert excess(found) == f"whatever was written would pass, as {why}"
    assert next_step(found, FORMATS["litert"]).startswith("Export a trained model, or give samples")
    # A difference that is one is said first.
    assert excess({**found, "tolerance": 0.01}).startswith(OTHER)
