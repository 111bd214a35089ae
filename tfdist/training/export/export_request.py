"""Request of an export: what `tfdist export` asks its process to do. Nothing here loads TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfdist.config import RunConfig
from tfdist.training.export.full_integer.calibration_request import CalibrationRequest
from tfdist.training.export.input_signature import InputEntry


@dataclass(frozen=True)
class ExportRequest:
    """A request for an export: what is exported, where to, and what it is tried with.

    Attributes:
        format: A name of `FORMATS`.
        target: The file or folder to make, under its temporary name; absolute.
        version: The folder within it that has the model; empty where it lies in `target` itself.
        name: Of the model, for its server.
        model: A `.keras` file, or a checkpoint's file of weights.
        is_whole_model: Whether that file is all that is needed; else `config` builds the model.
        shown_model: The model in words.
        config: The run's config; None for a file.
        section: The section of the data in JSON's types; None for samples that are made from the signature.
        key: Its dotted key; empty where there is none.
        samples: How many samples it is tried with, at most.
        signature: Inputs that the user gives.
        tolerance: Up to which difference it is the same; None for that of the model's precision.
        modules: What is imported first.
        seconds: How long the export may take in all, and running the artefact of it.
        calibration: How it becomes integers; None for formats that stay in float.
    """

    format: str
    target: str
    version: str
    name: str
    model: str
    is_whole_model: bool
    shown_model: str
    config: RunConfig | None
    section: Mapping[str, Any] | None
    key: str
    samples: int = 256
    signature: tuple[InputEntry, ...] = ()
    tolerance: float | None = None
    modules: tuple[str, ...] = ()
    seconds: float = 1800.0
    calibration: CalibrationRequest | None = None
