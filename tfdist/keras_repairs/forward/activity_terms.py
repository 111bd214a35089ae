"""Repair of activity regularizers where Keras sums them over the rows of a batch, as it does before 3.14.

A scalar that a layer adds is taken for a mean over the samples of its replica. Since 3.14 the term of an activity
regularizer is one; before, it is a sum, which this repair says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from tfdist.keras_repairs.base.keras_differences import DIFFERENCES
from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.coupling import collected_losses
from tfdist.keras_repairs.coupling.declaring import summed
from tfdist.keras_repairs.coupling.trials.recorded_layers import current_recording
from tfdist.keras_repairs.coupling.trials.trial_scope import share_on_trial
from tfdist.keras_repairs.forward.added_losses import terms_of

Function = Callable[..., Any]


def call(original: Function) -> Function:
    """Repairs `Layer.__call__`: the last terms that it adds are those of the activity regularizer, one an output."""
    if DIFFERENCES.activity_is_of_a_row:
        return original

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = original(self, *args, **kwargs)
        if getattr(self, "activity_regularizer", None) is not None and _is_of_some_rows():
            _say_summed(terms_of(self), sum(keras.ops.is_tensor(output) for output in keras.tree.flatten(outputs)))
        return outputs

    return repaired


def _is_of_some_rows() -> bool:
    """Whether the layer has a part of the batch alone; the trial of a layer finds out by itself what its terms are."""
    return current_recording() is None and (current_step() is not None or share_on_trial() < 1)


def _say_summed(terms: list[Any], last: int) -> None:
    for place in range(len(terms) - last, len(terms)):
        # Those of a layer that was tried out, or has the rows of all replicas, are marked already.
        if not collected_losses.is_mean(terms[place]):
            terms[place] = collected_losses.marked_as_mean(summed(keras.ops.sum(terms[place])))
