"""The samples by which `tfdist quantize` rounds weights, and to what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfdist.checkpoint.inspection.model_choice import ModelChoice
from tfdist.config.load import source_to_dict
from tfdist.errors import UsageError
from tfdist.inference.calibration_data import SAMPLES, choose_calibration_data
from tfdist.inference.data_choice import DataChoice
from tfdist.training.inference_request import BITS, GROUP_SIZE, KernelCalibration

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
