"""Request of a quantization: what `tfdist quantize` asks its workers to do. Nothing here loads TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfdist.errors import UnsupportedError
from tfdist.training.quantization.calibrated.kernel_calibration import KernelCalibration


def check_mode(mode: str) -> None:
    """Refuses what no finished model can become.

    Raises:
        UnsupportedError: It is float8.
    """
    if mode == "float8":
        raise UnsupportedError(
            "float8 is a way to train, not to store a trained model: Keras keeps the weights in float32, and learns in "
            "training by which scales to round them. Expected --mode int8, int4, gptq or awq. To train in float8, call "
            "model.quantize('float8') before fit, on one device: on several replicas its scales, which take their "
            "gradients for their values, are refused."
        )


@dataclass(frozen=True)
class QuantizationRequest:
    """A request for a quantization: what is quantized, and where it goes.

    Attributes:
        path: The file to make; absolute.
        mode: How weights are kept.
        keep_float: Names of layers that stay in float; `*` stands for any letters.
        sensitivity: Whether each layer is measured alone.
        max_drop: How much worse the metric may become, as `DropBudget.of` reads it; None for any drop.
        metric: The metric to judge by; None for the model's first.
        calibration: By what samples weights are rounded; None for a mode that needs none.
    """

    path: str
    mode: str
    keep_float: tuple[str, ...] = ()
    sensitivity: bool = False
    max_drop: str | None = None
    metric: str | None = None
    calibration: KernelCalibration | None = None

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> QuantizationRequest:
        """The request in JSON's types."""
        calibration = content["calibration"]
        if calibration is not None:
            calibration = KernelCalibration(**calibration)
        return cls(**{**content, "keep_float": tuple(content["keep_float"]), "calibration": calibration})
