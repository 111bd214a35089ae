"""Histograms over the pixels of the images of all replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.replica_step import alone, current_step, is_one_of_several, sum_over_replicas
from tfdist.keras_repairs.coupling.trials.replica_trial import is_in_replica_trial
from tfdist.text import safe_str

Function = Callable[..., Any]


def of_one_image(original: Function) -> Function:
    """Repairs `BaseImagePreprocessingLayer.transform_single_image`, which makes a batch of one image by itself."""

    def repaired(self: Any, image: Any, transformation: Any, training: bool = True) -> Any:
        with alone():
            return original(self, image, transformation, training)

    return repaired


def histogram(original: Function) -> Function:
    """Repairs `Equalization._custom_histogram_fixed_width`: Keras equalizes a batch by the pixels of all its images.

    `RandAugment` equalizes, too, in some of its steps.
    """

    def repaired(self: Any, values: Any, value_range: Any, nbins: int) -> tf.Tensor:
        counts = original(self, values, value_range, nbins)
        if is_in_replica_trial():
            # The same of the batch as of its parts.
            return tf.ones_like(counts)
        if not is_one_of_several():
            return counts
        step = current_step()
        try:
            return sum_over_replicas(counts if step is None else step.share.of_samples(counts))
        except RuntimeError as error:
            if "merge_call" not in safe_str(error):
                raise
            raise UnsupportedError(
                f"The layer {self.name!r} (Equalization) is called in a loop, a branch or a tf.function of its own, "
                "where the replicas cannot add up the pixels of their images. Expected a call in the function of the "
                "replica itself. Or equalize in the data: dataset.map(layer)."
            ) from error

    return repaired
