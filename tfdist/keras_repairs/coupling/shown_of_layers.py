"""The facts that trials and traces of a layer have shown, attached to the layer."""

from __future__ import annotations

from dataclasses import dataclass, field

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.coupling.call_scope import Draws
from tfdist.keras_repairs.coupling.trials.call_trial import CallVerdict
from tfdist.keras_repairs.coupling.trials.loss_trial import Verdict


@dataclass
class ShownOfLayer:
    """The facts known of a layer, or of a model, by the way in which it was called.

    Attributes:
        as_layer: What trials of it as a layer have shown.
        as_model: What trials of what it does between its layers have shown.
        draws: What traces have shown of its draws, by how many weights it had before the call and the way of calling
            it; None where it cannot be traced.
        activity: What trials of its activity regularizer have shown, by that and the kind of output.
    """

    as_layer: dict[str, CallVerdict] = field(default_factory=dict)
    as_model: dict[str, CallVerdict] = field(default_factory=dict)
    draws: dict[tuple[int, str], Draws | None] = field(default_factory=dict)
    activity: dict[str, Verdict] = field(default_factory=dict)


_SHOWN: AttachedValue[ShownOfLayer] = AttachedValue("shown_of_layer")


def shown_of(layer: object) -> ShownOfLayer:
    """Returns what is known of a layer, to be read and added to."""
    return _SHOWN.get_or_make(layer, ShownOfLayer)
