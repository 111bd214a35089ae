"""Requests of inferences: what workers are asked to do with a trained model, as the argument of their target."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from tfdist import bounded_json
from tfdist.errors import UnsupportedError


@dataclass(frozen=True)
class PruningRequest:
    """A request about a pruning: what is measured beside the model from before, and where it goes.

    Attributes:
        path: The file to make; absolute.
        pruned: The weights of the pruned model, a file on the chief's machine.
        structure: What was pruned together, as `Structure.of` reads it.
        max_drop: How much worse the metric may have become, as `DropBudget.of` reads it; None for any drop.
        metric: The metric to judge by; None for the model's first.
    """

    path: str
    pruned: str
    structure: str
    max_drop: str | None = None
    metric: str | None = None


BITS = {"gptq": (4, 8), "awq": (4,)}
"""Modes that are calibrated -> the bits that a weight may have, the default first."""

GROUP_SIZE = 128


@dataclass(frozen=True)
class KernelCalibration:
    """By what samples weights are rounded, and to what.

    Attributes:
        section: The section of the data, in JSON's types.
        key: Its dotted key.
        samples: How many samples are read, at most.
        seed: Of their order.
        bits: Of a weight.
        group_size: How many inputs of an output have a scale together; -1 for all.
    """

    section: Mapping[str, Any]
    key: str
    samples: int
    seed: int
    bits: int
    group_size: int


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


Verb = Literal["predict", "evaluate", "quantize", "prune"]

RESULT_FILE = "result.json"
"""The file into which the chief writes what came of it, in the run directory of the job."""


@dataclass(frozen=True)
class PredictionRequest:
    """A request for predictions: where they go.

    Attributes:
        path: The file, or the folder, to make; absolute.
        format: `npz`, `tfrecord`, `csv` or `parquet`; or `shards`, for a folder of TFRecord files.
        overwrite: Whether parts of other predictions, that were left beside the file, are removed.
        part_samples: After how many samples a part is complete; None for about 32 MB.
        shards: How many files `shards` makes; None for some of about 128 MB.
    """

    path: str
    format: str
    overwrite: bool = False
    part_samples: int | None = None
    shards: int | None = None


@dataclass(frozen=True)
class InferenceRequest:
    """A request to the workers: what they do.

    Attributes:
        verb: What they do; `prune` measures what a pruning has come to.
        model: A `.keras` file, or a checkpoint's file of weights; on the chief's machine, or a URL.
        is_whole_model: Whether that file is all that is needed; else the config builds the model.
        shown_model: The model in words, for what is printed.
        section: The section of the data, in JSON's types.
        key: Its dotted key, for errors.
        batch_size: Samples of a step over all replicas.
        modules: What is imported first, as custom layers of a `.keras` file are registered there.
        prediction: Where predictions go; None without any.
        quantization: What is quantized; None without one.
        pruning: What is measured beside `model`; None without any.
    """

    verb: Verb
    model: str
    is_whole_model: bool
    shown_model: str
    section: Mapping[str, Any]
    key: str
    batch_size: int
    modules: tuple[str, ...] = ()
    prediction: PredictionRequest | None = None
    quantization: QuantizationRequest | None = None
    pruning: PruningRequest | None = None

    def to_argument(self) -> str:
        """The request as a text, which `of` reads."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of(cls, argument: str) -> Self:
        """The request that `to_argument` gave, in this version of tfdist."""
        content = bounded_json.parse(argument)
        prediction = content["prediction"]
        content["prediction"] = None if prediction is None else PredictionRequest(**prediction)
        quantization = content["quantization"]
        content["quantization"] = None if quantization is None else QuantizationRequest.of(quantization)
        pruning = content["pruning"]
        content["pruning"] = None if pruning is None else PruningRequest(**pruning)
        return cls(**{**content, "modules": tuple(content["modules"])})
