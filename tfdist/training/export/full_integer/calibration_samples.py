"""Samples by which the ranges of activations are chosen, read through the pipeline of the run's data."""

from __future__ import annotations

import tensorflow as tf
from numpy.typing import NDArray

from tfdist import data
from tfdist.config.data_sections import SourceConfig
from tfdist.config.section import build
from tfdist.training.export.full_integer.calibration_request import CalibrationRequest
from tfdist.training.export.sample_inputs import filled, first_batch, flat_inputs, sample_arrays
from tfdist.training.export.serving_function import ServingFunction


def calibration_samples(asked: CalibrationRequest, serving: ServingFunction) -> dict[str, NDArray]:
    """The inputs by name, [samples, ...]; as many as a fixed batch size divides.

    Raises:
        DataError: They cannot be read, or are not what the model takes.
    """
    section = build(SourceConfig, dict(asked.section), asked.key)
    opened = data.from_config(section, asked.samples, asked.seed, tf.distribute.get_strategy(), asked.key)
    x = sample_arrays(first_batch(opened.batches, asked.key)[0], asked.key)
    inputs = flat_inputs(x, serving, asked.key)
    return filled(inputs, serving.fixed_batch) if serving.fixed_batch else inputs
