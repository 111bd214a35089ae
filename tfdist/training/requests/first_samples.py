"""The first samples of an inference's data, by which a model is timed, and looked at."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfdist import data
from tfdist.config.data_sections import SourceConfig
from tfdist.config.section import build
from tfdist.training.requests.inference_request import InferenceRequest


def first_samples(request: InferenceRequest, count: int, seed: int, default: tf.distribute.Strategy) -> Any:
    """The inputs of a batch of so many samples, or of all if there are fewer, read by this worker alone.

    Args:
        request: Which data.
        count: How many.
        seed: The session's.
        default: The default strategy, in force.
    """
    section = build(SourceConfig, dict(request.section), request.key)
    opened = data.from_config(section, count, seed, default, request.key)
    return keras.utils.unpack_x_y_sample_weight(next(iter(opened.batches)))[0]
