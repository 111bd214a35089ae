"""The samples by which a quantization or an export in integers is calibrated, and what that may cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfdist.checkpoint.inspection.model_choice import ModelChoice
from tfdist.config.load import source_to_dict
from tfdist.errors import UsageError
from tfdist.inference.data_choice import DataChoice, choose_data
from tfdist.training.artifacts.artifact_formats import ArtifactFormat
from tfdist.training.export.export_request import CalibrationRequest
from tfdist.training.inference_request import BITS, GROUP_SIZE, KernelCalibration
from tfdist.training.quantization.layer_choice import DropBudget

SAMPLES = 512


def choose_calibration_data(asked: str | None, model: ModelChoice, data: DataChoice) -> DataChoice:
    """Those that a user names; else those that a run was trained on, in the order of its first epoch.

    They are without augmentation. Without a run they are those that the result is measured on.

    Args:
        asked: As `choose_data` takes it; None for the default.
        model: What is calibrated.
        data: What the result is measured on.

    Raises:
        UsageError: There is no such data.
        DataError: Files of it are missing.
    """
    config = model.config
    if asked is not None or config is None:
        return data if asked is None else choose_data(asked, config, None)
    chosen = choose_data("train", config, None)
    # Files often have their samples class by class: the first ones would be of one.
    return dataclasses.replace(
        chosen, section=dataclasses.replace(chosen.section, shuffle=config.data.train.shuffle)
    )


MAX_DROP = "1%"
EXPORT_OPTIONS = ("calibration", "calibration_data", "max_drop", "metric")


def choose_calibration(
    form: ArtifactFormat, options: Mapping[str, Any], model: ModelChoice, data: DataChoice | None
) -> CalibrationRequest | None:
    """Returns what the options of `EXPORT_OPTIONS` ask for; None for a format that is not calibrated.

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
    given = [name for name in EXPORT_OPTIONS if options[name] is not None]
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


OPTIONS = ("calibration", "calibration_data", "bits", "group_size")


def check_options(mode: str, options: Mapping[str, Any]) -> None:
    """Checks those of `OPTIONS`, of which None stands for one that is not given.

    Raises:
        UsageError: One is for another mode, or has a value that its mode has not.
    """
    given = [name for name in OPTIONS if options[name] is not None]
    if mode not in BITS:
        if given:
            option = f"--{given[0].replace('_', '-')}"
            raise UsageError(
                f"{option} is for weights that samples round. Expected it with --mode {' or '.join(BITS)}. Received: "
                f"{option} with --mode {mode}"
            )
        return
    bits, size = options["bits"], options["group_size"]
    if bits is not None and bits not in BITS[mode]:
        expected = " or ".join(str(one) for one in BITS[mode])
        raise UsageError(f"--mode {mode} has {expected} bits a weight. Expected one of these. Received: --bits {bits}")
    if size is not None and size < 1 and size != -1:
        raise UsageError(
            "--group-size is how many inputs of an output have a scale together. Expected 1 or more, or -1 for all. "
            f"Received: --group-size {size}"
        )


def choose_kernel_calibration(
    mode: str, options: Mapping[str, Any], model: ModelChoice, data: DataChoice
) -> KernelCalibration | None:
    """Returns what `OPTIONS` ask for; None for a mode that is not calibrated.

    Args:
        mode: As `--mode` has it.
        options: None for one that is not given.
        model: What is quantized.
        data: What it is measured on.

    Raises:
        UsageError: There is no such data.
        DataError: Files of it are missing.
    """
    if mode not in BITS:
        return None
    chosen = choose_calibration_data(options["calibration_data"], model, data)
    seed = 0 if model.config is None else model.config.seed or 0
    return KernelCalibration(
        source_to_dict(chosen.section),
        chosen.key,
        options["calibration"] or SAMPLES,
        seed,
        options["bits"] or BITS[mode][0],
        options["group_size"] or GROUP_SIZE,
    )
