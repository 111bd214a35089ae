"""A model that is computed in full float32 on GPUs, too."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfdist import models


def mlp(**options: Any) -> keras.Model:
    """`tfdist.models.mlp`, without TensorFloat-32, which is for some shapes of a product and not for others.

    A batch that is cut would differ by more than rounding. NVIDIA_TF32_OVERRIDE=0 takes it out of cuBLAS alone.
    """
    tf.config.experimental.enable_tensor_float_32_execution(False)
    return models.mlp(**options)
