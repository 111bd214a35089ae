"""Histograms over the pixels of the images of all replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.replica_step import current_step, is_one_of_several, sum_over_replicas
from tfdist.keras_repairs.coupling.trials.replica_trial import is_in_replica_trial
from tfdist.text import safe_str

Function = Callable[..., Any]


_RANK_OF_IMAGES = 3
"""Of a channel of a batch."""


def histogram(original: Function) -> Function:
    """Repairs `Equalization._custom_histogram_fixed_width`: Keras equalizes a batch by the pixels of all its images.

    `RandAugment` equalizes, too, in some of its steps.
    """

    def repaired(self: Any, values: Any, value_range: Any, nbins: int) -> tf.Tensor:
        counts = original(self, values, value_range, nbins)
        if len(values.shape) < _RANK_OF_IMAGES:
            # Those of one image, by itself.
            return counts
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
                "where the replicas cannot add up the pixels of their images. Expected a call in the function of the replica "
                "itself. Or equalize in the data: dataset.map(layer)."
            ) from error

    return repaired
