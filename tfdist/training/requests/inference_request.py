"""Request of an inference: what a launcher asks its workers to do, as the argument of their target."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from tfdist import bounded_json
from tfdist.training.requests.pruning_request import PruningRequest
from tfdist.training.requests.quantization_request import QuantizationRequest

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
