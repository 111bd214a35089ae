"""A repair: a function of Keras or TensorFlow that is replaced, and by what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfdist.keras_repairs.callbacks import callback_list
from tfdist.keras_repairs.keras_function import KerasFunction
from tfdist.keras_repairs.loop import fit_listeners, trainer
from tfdist.keras_repairs.optimizer import gradient_reduction

Function = Callable[..., Any]


@dataclass(frozen=True)
class RepairHooks:
    """The hooks that other packages of tfdist connect to the repairs: the arguments of `install`."""

    imposed_seed: int | None = None
    extra_callbacks: callback_list.ExtraCallbacks = callback_list.none_extra
    on_batch: trainer.Observer | None = None
    on_gradients: gradient_reduction.Observer | None = None
    listener: fit_listeners.FitListener = fit_listeners.NoListener()
    chosen_callbacks: callback_list.ChosenCallbacks = callback_list.all_chosen
    most_epochs: int | None = None


@dataclass(frozen=True)
class Repair(KerasFunction):
    """One replaced function: `owner.name` becomes `make(original)`.

    Attributes:
        make: Takes the original function and returns the repaired one.
        also: Public modules that hold the function under the same name.
        is_checked: Whether the original must be one of those in `fingerprints`, for which `make` was written.
    """

    make: Callable[[Any], Function]
    also: tuple[Any, ...] = ()
    is_checked: bool = True
