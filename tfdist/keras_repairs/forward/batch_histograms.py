"""Histograms over the pixels of the images of all replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.replica_step import current_step, is_one_of_several, sum_over_replicas
from tfdist.keras_repairs.coupling.trials.replica_trial import is_in_replica_trial

Function = Callable[..., Any]


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
        return sum_over_replicas(counts if step is None else step.share.of_samples(counts))

    return repaired
