"""Repair of `class_weight` for datasets that a script has distributed itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.runtime.batches.dataset_description import description_of

Function = Callable[..., Any]


def dataset_adapter_init(original: Function) -> Function:
    """Repairs `TFDatasetAdapter.__init__`: weighs the global batches of a distributed dataset, which `fit` cuts then.

    Keras maps a function over the dataset, which a distributed one does not let it do.

    Raises:
        UnsupportedError: Its global batches are not known.
    """

    def repaired(self: Any, dataset: Any, class_weight: Any = None, *args: Any, **kwargs: Any) -> None:
        if class_weight is not None and isinstance(dataset, tf.distribute.DistributedDataset):
            dataset = _global_batches(dataset)
        original(self, dataset, class_weight, *args, **kwargs)

    return repaired


def _global_batches(distributed: tf.distribute.DistributedDataset) -> tf.data.Dataset:
    batches = description_of(distributed).global_batches
    if batches is None:
        raise UnsupportedError(
            "class_weight needs a dataset whose batches are whole, and this one has been distributed by "
            "distribute_datasets_from_function, by tfdist.data, or by another strategy than tfdist.strategy(). "
            "Received: class_weight and a DistributedDataset. Give fit the tf.data.Dataset itself, or weigh the "
            "samples in the dataset: (x, y, weight)."
        )
    return batches
