"""A second source beside the samples: more of each sample, found by its number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfdist.data.ops.sample_indices import SampleIndices
from tfdist.data.sample_source import SampleSource

Join = Callable[[Any, Any], Any]
"""Takes a batch, such as `(x, y)`, and what the second source has of the same samples; returns the batch of both."""


@dataclass(frozen=True)
class Companion:
    """A companion of the samples: what comes beside them.

    Attributes:
        source: As many samples, with the same numbers.
        join: Puts both together.
    """

    source: SampleSource
    join: Join

    def joined(self, batches: tf.data.Dataset, numbers: SampleIndices) -> tf.data.Dataset:
        """Batches of samples, with what this has of them.

        Args:
            batches: Of the samples that `numbers` numbers.
            numbers: These numbers.
        """
        both = tf.data.Dataset.zip((batches, self.source.batches(numbers)))
        return both.map(lambda batch, more: self.join(batch, more))
