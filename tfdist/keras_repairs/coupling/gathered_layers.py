"""A layer or model that is declared to couple the rows of a batch."""

from __future__ import annotations

from typing import Any

import keras

from tfdist.keras_repairs.base.replica_step import is_one_of_several
from tfdist.keras_repairs.coupling.global_batch_layers import call_with_all_rows


@keras.saving.register_keras_serializable(package="tfdist")
class GatheredLayer(keras.layers.Wrapper):
    """A layer that every replica calls with the rows of all of them, and of which it takes its own rows.

    Args:
        layer: Any layer or model.
    """

    def __init__(self, layer: keras.layers.Layer, **options: Any) -> None:
        super().__init__(layer, **{"name": layer.name, "dtype": layer.dtype_policy} | options)
        self.supports_masking = True

    def build(self, *shapes: Any, **named: Any) -> None:
        """Leaves it to the layer inside, which is built when it is called."""

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_one_of_several():
            return self.layer(inputs, *args, **kwargs)
        return call_with_all_rows(self.layer, (inputs, *args), kwargs)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """The mask of the layer inside, which is that of other layers where it computes none."""
        return self.layer.compute_mask(inputs, previous_mask) if self.layer.supports_masking else None
