"""The samples by which an export in integers is calibrated, and what that may cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfdist.checkpoint.inspection.model_choice import ModelChoice
from tfdist.config.load import source_to_dict
from tfdist.errors import UsageError
from tfdist.inference.calibration_data import SAMPLES, choose_calibration_data
from tfdist.inference.data_choice import DataChoice
from tfdist.training.artifacts.artifact_formats import ArtifactFormat
from tfdist.training.export.export_request import CalibrationRequest
from tfdist.training.quantization.drop_budget import DropBudget

MAX_DROP = "1%"
OPTIONS = ("calibration", "calibration_data", "max_drop", "metric")


def choose_calibration(
    form: ArtifactFormat, options: Mapping[str, Any], model: ModelChoice, data: DataChoice | None
) -> CalibrationRequest | None:
    """Returns what the options of `OPTIONS` ask for; None for a format that is not calibrated.

    The samples are those that a run was trained on, in the order of its first epoch and without augmentation; without a
    run, those that the artefact is tried with.

    Args:
        form: The format.
        options: None for one that is not given.
        model: What is exported.
        data: What it is tried with; None for samples that are made.

    Raises:
        UsageError: An option is for another format, or there are no samples.
        DataError: Files of the data are missing.
    """
    given = [name for name in OPTIONS if options[name] is not None]
    if not form.is_calibrated:
        if given:
            option = f"--{given[0].replace('_', '-')}"
            raise UsageError(
                f"{option} is for an export in integers. Expected it with --format litert-int8 or litert-int16x8. "
                f"Received: {option} with --format {form.name}"
            )
        return None
    if data is None:
        raise UsageError(
            f"--format {form.name} needs samples: activations become integers by the ranges that these have, and "
            "labels say what that costs. Expected --data. Received: no data"
        )
    budget = options["max_drop"] or MAX_DROP
    DropBudget.of(budget)
    chosen = choose_calibration_data(options["calibration_data"], model, data)
    seed = 0 if model.config is None else model.config.seed or 0
    section = source_to_dict(chosen.section)
    return CalibrationRequest(
        section, chosen.key, options["calibration"] or SAMPLES, seed, budget, options["metric"]
    )
