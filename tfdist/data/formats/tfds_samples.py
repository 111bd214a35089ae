"""Examples of a prepared dataset as batches of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.data.formats.prepared_dataset import PreparedDataset
from tfdist.data.formats.tfrecord_samples import ParsedRecordSamples


class TfdsSamples(ParsedRecordSamples):
    """Examples: `x` is a dict of features, or the feature where there is one, and `y` the label.

    Args:
        dataset: The dataset.
        features: The features of `x`; None for what the dataset says, or all but the label.
        label: That of `y`; None for what the dataset says.
        function: Instead of these, from an example, a dict of tensors, to the sample `(x, y)`.

    Raises:
        DataError: See `PreparedDataset`; or `function` does not take the first example.
    """

    def __init__(
        self,
        dataset: PreparedDataset,
        features: list[str] | None = None,
        label: str | None = None,
        function: Callable[[Any], Any] | None = None,
    ) -> None:
        self._dataset, self._function = dataset, function
        self._keys = None if function is not None else dataset.keys(features, label)
        what = "the features of its dataset" if function is None else "the map function"
        self._open(dataset.reader(), self._sample, what, batched=False)

    def _sample(self, record: tf.Tensor) -> Any:
        example = self._dataset.info.features.deserialize_example(record)
        if self._function is not None:
            return self._function(example)
        features, label = self._keys or ([], "")
        x = {name: _as_keras(example[name]) for name in features}
        return (x if len(x) > 1 else next(iter(x.values()))), _as_keras(example[label])


def _as_keras(value: Any) -> Any:
    """Floating-point numbers become float32, as in Keras."""
    return tf.nest.map_structure(lambda each: tf.cast(each, tf.float32) if each.dtype.is_floating else each, value)
