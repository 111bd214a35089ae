"""The calibration of a quantization: all workers run the float model, and the chief rounds its kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import keras
import tensorflow as tf

from tfdist import data
from tfdist.config.data_sections import SourceConfig
from tfdist.config.section import build
from tfdist.training.announcements import Announce
from tfdist.training.config_objects.sample_shapes import naming_misfits
from tfdist.training.quantization.calibrated.input_moments import measure_moments, run_through
from tfdist.training.quantization.calibrated.kernel_calibration import KernelCalibration
from tfdist.training.quantization.layer_quantization import layers_by_name
from tfdist.training.quantization.quantization_method import CalibratedMethod, input_sizes


def calibrate(
    asked: KernelCalibration,
    model: keras.Model,
    names: Sequence[str],
    batch_size: int,
    strategy: tf.distribute.Strategy,
    method: CalibratedMethod | None,
    announce: Announce,
) -> int:
    """Measures what layers take in, and rounds their kernels. All workers call it together.

    Args:
        asked: What is asked for.
        model: The float model, under the strategy.
        names: Its layers, by `layers_by_name`.
        batch_size: Samples of a step over all replicas, at most.
        strategy: The strategy in force.
        method: Takes the kernels, on the chief; None elsewhere.
        announce: Says a line.

    Returns:
        How many samples were read: those asked for, up to whole steps, or all there are.

    Raises:
        DataError: They cannot be read, or are not what the model takes.
    """
    section = build(SourceConfig, dict(asked.section), asked.key)
    steps = math.ceil(asked.samples / batch_size)
    size = math.ceil(asked.samples / steps)
    opened = data.from_config(section, size, asked.seed, strategy, asked.key)
    steps = min(steps, math.ceil(opened.samples / size))
    samples = min(steps * size, opened.samples)
    layers = layers_by_name(model)
    sizes = input_sizes({name: layers[name] for name in names})
    announce(f"calibrates {len(sizes)} layers on {samples:,} samples of {asked.key}")
    with naming_misfits(model, None, {asked.key: opened.batches}):
        chosen = {name: (layers[name], inputs) for name, inputs in sizes.items()}
        for name, moments in measure_moments(chosen, lambda: run_through(model, opened.batches, steps), strategy):
            if method is not None:
                method.take(name, layers[name], moments)
    return samples
