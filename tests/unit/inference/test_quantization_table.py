"""What `tfdist quantize` prints of what was measured."""

from __future__ import annotations

from typing import Any

from tfdist.inference.quantization_table import render


def layer(name: str, kind: str, after: int, why: str | None = None, alone: float | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "bytes_before": 4000,
        "bytes_after": after,
        "float_because": why,
        "alone": None if alone is None else {"loss": 0.5, "accuracy": alone},
        "drop_alone": None if alone is None else 0.9 - alone,
    }


def result(**changes: Any) -> dict[str, Any]:
    return {
        "mode": "int8",
        "samples": 360,
        "metric": "accuracy",
        "best": "max",
        "before": {"metrics": {"accuracy": 0.9, "loss": 0.5}, "bytes": 10_000, "weight_bytes": 8000, "sample_ms": 2.0},
        "after": {"metrics": {"accuracy": 0.89, "loss": 0.6}, "bytes": 4_000, "weight_bytes": 5000, "sample_ms": 1.0},
        "drop": 0.01,
        "max_drop": None,
        "held": True,
        "shows_nothing": "",
        "output": "/a/int8.keras",
        "layers": [layer("conv", "Conv2D", 4000, "not covered"), layer("dense", "Dense", 1000)],
        **changes,
    }


def test_a_model_before_and_after() -> None:
    assert render(result()).splitlines() == [
        "             before    after  change",
        "loss            0.5      0.6    +0.1",
        "accuracy        0.9     0.89   -0.01",
        "file        10.0 kB  4.00 kB    -60%",
        "weights     8.00 kB  5.00 kB    -38%",
        "one sample     2 ms     1 ms    -50%",
        "",
        "layer  class   weights              in float because",
        "conv   Conv2D  4.00 kB              not covered",
        "dense  Dense   4.00 kB  -> 1.00 kB",
        "",
        "accuracy is 0.01 worse, on 360 samples.",
        "int8: /a/int8.keras, 4.00 kB",
    ]


def test_what_samples_have_chosen() -> None:
    calibration = {"samples": 512, "key": "data.train", "bits": 4, "group_size": 128}
    lines = render(result(mode="gptq", calibration=calibration)).splitlines()
    said = "4 bits a weight, a scale for 128 inputs of an output, by 512 samples of data.train."
    assert lines[-3] == said
    assert "for all inputs of" in render(result(calibration={**calibration, "group_size": -1}))


def test_layers_alone_and_a_budget_that_is_exceeded() -> None:
    layers = [layer("a", "Dense", 1000, alone=0.895), layer("b", "Dense", 4000, "--max-drop", alone=0.5)]
    lines = render(result(layers=layers, held=False, output=None, max_drop="0.5%")).splitlines()
    assert lines[7:10] == [
        "layer  class  weights              accuracy alone    drop  in float because",
        "a      Dense  4.00 kB  -> 1.00 kB           0.895  +0.005",
        "b      Dense  4.00 kB                         0.5    +0.4  --max-drop",
    ]
    assert lines[-2:] == [
        "accuracy is 0.01 worse, with a budget of 0.5%, on 360 samples.",
        "The budget cannot be held, and nothing was made.",
    ]
    assert "accuracy is the same, on" in render(result(drop=0.0)) and "is 0.1 better" in render(result(drop=-0.1))


def test_a_budget_that_nothing_could_exceed() -> None:
    why = "the output 'p' is NaN or infinite in all 32 samples"
    said = render(result(max_drop="1%", held=False, output=None, drop=0.0, shows_nothing=why))
    assert f"accuracy is the same, with a budget of 1%, on 360 samples. This shows nothing: {why}." in said
    assert said.endswith("No budget could be exceeded, and nothing was made. Quantize a trained model.")
