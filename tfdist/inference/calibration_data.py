"""The samples by which an export or a quantization is calibrated."""

from __future__ import annotations

import dataclasses

from tfdist.checkpoint.inspection.model_choice import ModelChoice
from tfdist.inference.data_choice import DataChoice, choose_data

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
