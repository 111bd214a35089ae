"""Request of a calibration: how weights are rounded, and by which samples. Nothing here loads TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
