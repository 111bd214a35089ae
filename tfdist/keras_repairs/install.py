"""Installs the repairs in a process, where Keras and TensorFlow are those that they were written for."""

from __future__ import annotations

import functools
import inspect

import keras

from tfdist.keras_repairs import keras_versions
from tfdist.keras_repairs.assumed_functions import assumed_functions
from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.callbacks import callback_list
from tfdist.keras_repairs.fingerprints import FINGERPRINTS
from tfdist.keras_repairs.loop import fit_listeners, trainer
from tfdist.keras_repairs.optimizer import gradient_reduction
from tfdist.keras_repairs.registry import repairs
from tfdist.keras_repairs.repair import Function, Repair, RepairHooks

_IS_REPAIR: AttachedValue[bool] = AttachedValue("is_repair")


def install(
    imposed_seed: int | None = None,
    extra_callbacks: callback_list.ExtraCallbacks = callback_list.none_extra,
    on_batch: trainer.Observer | None = None,
    on_gradients: gradient_reduction.Observer | None = None,
    listener: fit_listeners.FitListener | None = None,
    chosen_callbacks: callback_list.ChosenCallbacks = callback_list.all_chosen,
    most_epochs: int | None = None,
) -> None:
    """Installs every repair in this process that is not installed yet.

    Args:
        imposed_seed: TensorFlow's global seed where tfdist set it and the script did not; see `inputs.array_shuffle`.
        extra_callbacks: Returns the callbacks that each `fit`, `evaluate` and `predict` gets besides its own; see
            `callbacks.callback_list.callback_list_init`.
        on_batch: Called in each replica's context, while a step is traced, with the replica's data.
        on_gradients: Likewise with the gradients of the global batch, before they are clipped; one a variable or None.
        listener: Notified of every `fit`, `evaluate` and `predict`, and of every execution in them.
        chosen_callbacks: Returns what each `fit`, `evaluate` and `predict` gets in the place of its own callbacks.
        most_epochs: How many epochs a `fit` has at most; None for as many as it is called with.

    Raises:
        UnsupportedError: A function is not one that its repair was written for, or that a repair relies on.
    """
    heard = listener or fit_listeners.NoListener()
    hooks = RepairHooks(
        imposed_seed, extra_callbacks, on_batch, on_gradients, heard, chosen_callbacks, most_epochs
    )
    todo = [repair for repair in repairs(hooks) if not _is_installed(repair)]
    originals = {repair.path: repair.function for repair in todo}
    to_check = [*(repair for repair in todo if repair.is_checked), *(assumed_functions() if todo else ())]
    keras_versions.check(
        keras_versions.installed(), {checked.path: checked.function for checked in to_check}, FINGERPRINTS
    )
    for repair in todo:
        repaired = _made(repair, originals[repair.path])
        for owner in (repair.owner, *repair.also):
            is_property = isinstance(getattr(owner, repair.name, None), property)
            setattr(owner, repair.name, property(repaired) if is_property else repaired)


def is_installed() -> bool:
    """Returns whether this process computes updates by the repairs."""
    # A repaired function has the name and the module of the one that it replaces, and globals of its own.
    return str(keras.optimizers.Optimizer.apply.__globals__["__name__"]).startswith("tfdist.")


def _made(repair: Repair, original: Function | None) -> Function:
    """The repaired function, which says in `__wrapped__` what it replaces: None where it was missing."""
    repaired = repair.make(original)
    if original is None:
        repaired.__name__, repaired.__wrapped__ = repair.name, None  # type: ignore[attr-defined]
    else:
        functools.update_wrapper(repaired, original)
    if inspect.ismodule(repair.owner):
        # By which it is pickled; the original may have been a method.
        repaired.__module__, repaired.__qualname__ = repair.owner.__name__, repair.name
    _IS_REPAIR.set(repaired, True)
    return repaired


def _is_installed(repair: Repair) -> bool:
    return bool(_IS_REPAIR.get(repair.function))
