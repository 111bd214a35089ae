"""Layouts of `--tensor`: a `keras.distribution.ModelParallel` that the script has not written.

Each weight has its layout from the model's class, where that has a `get_layout_map(device_mesh)`, as KerasHub's
backbones do, and else a derived one. It is decided as the weight is made, while it is known which layer makes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common import global_state

from tfdist.keras_repairs.base.global_devices import devices_of_all
from tfdist.runtime.strategy_settings import settings_of
from tfdist.sharding.derived_layouts import CutKernel, DerivedLayout, MadeWeight, derived_layout

BATCH, MODEL = "batch", "model"
"""The axes of the mesh, by the names that `get_layout_map` expects unless it is told others."""


class ReasonedLayout(keras.distribution.TensorLayout):
    """A layout of a weight, with the reason for it.

    Attributes:
        reason: A part of a sentence.
    """

    def __init__(self, axes: tuple[str | None, ...], device_mesh: Any, reason: str) -> None:
        super().__init__(axes, device_mesh)
        self.reason = reason


class TensorParallel(keras.distribution.ModelParallel):
    """The distribution that `--tensor` stands for.

    Args:
        devices: Those of all workers, as `keras.distribution.list_devices` names them.
        shares: How many workers share each weight.
    """

    def __init__(self, devices: list[str], shares: int) -> None:
        mesh = keras.distribution.DeviceMesh((len(devices) // shares, shares), [BATCH, MODEL], devices)
        super().__init__(layout_map=keras.distribution.LayoutMap(mesh), batch_dim_name=BATCH)
        self.shares = shares
        self._maps: dict[type, Any] = {}

    def lay_out(self, variable: Any, layer: Any) -> None:
        """Gives a weight that a layer has just made its layout, unless the layer has given it one.

        `ModelParallel.get_variable_layout` returns that.
        """
        if getattr(variable, "_layout", None) is None:
            found = self._of_model(variable) or derived_layout(_made_weight(variable, layer), self.shares)
            axes = tuple(MODEL if place == found.axis else None for place in range(len(variable.shape)))
            variable._layout = ReasonedLayout(axes, self.device_mesh, found.reason)

    def _of_model(self, variable: Any) -> DerivedLayout | None:
        """What the class of the model that is being made says; None where it says nothing of a weight.

        What it cuts along the batch's axis of the mesh is whole in each group of `--tensor` workers.
        """
        owner = next(_models_being_made(), None)
        if owner is None:
            return None
        if owner not in self._maps:
            self._maps[owner] = owner.get_layout_map(self.device_mesh)
        layout = self._maps[owner][variable.path]
        if layout is None:
            return None
        axis, name = next(iter(_places(layout.axes)), None), owner.__name__
        if axis is not None and variable.shape[axis] < self.shares:
            return DerivedLayout(None, f"{variable.shape[axis]} along the axis of the map of {name}")
        return DerivedLayout(axis, f"by the map of {name}")


def tensor_parallel(strategy: tf.distribute.Strategy) -> TensorParallel | None:
    """The distribution of a run with `--tensor`; None in others."""
    settings = settings_of(strategy)
    if settings.tensor == 1:
        return None
    if settings.model_parallel is None:
        settings.model_parallel = TensorParallel(devices_of_all(strategy), settings.tensor)
    found: TensorParallel = settings.model_parallel
    return found


def plan_layouts_over(shares: int) -> None:
    """Gives the weights that this process makes the layouts of `--tensor`, for a plan: none of them is cut."""
    settings = settings_of(tf.distribute.get_strategy())
    settings.tensor = shares
    if shares > 1:
        settings.model_parallel = TensorParallel([f"cpu:{number}" for number in range(shares)], shares)


def _places(axes: tuple[str | None, ...]) -> Iterator[int]:
    return (place for place, name in enumerate(axes) if name == MODEL)


def _models_being_made() -> Iterator[Any]:
    """The classes with a map of their own in whose constructors this is called, from the inside out.

    A functional model makes its layers, and calls them, before it is one: until then nothing but its constructor's
    frame knows of it.
    """
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__init__" and code.co_argcount:
            owner = type(frame.f_locals.get(code.co_varnames[0]))
            if issubclass(owner, keras.layers.Layer) and callable(getattr(owner, "get_layout_map", None)):
                yield owner
        frame = frame.f_back  # type: ignore[assignment]


def _made_weight(variable: Any, layer: Any) -> MadeWeight:
    kinds = [kind for kind in type(layer).__mro__ if kind.__module__.startswith(("keras.", "keras_hub."))]
    return MadeWeight(
        kinds=tuple(kind.__name__ for kind in kinds),
        layer=layer.name,
        name=variable.name,
        shape=tuple(variable.shape),
        kernel=_kernel_of(layer),
        equation=getattr(layer, "equation", None),
        key_value_heads=_key_value_heads(),
        is_trained=variable.trainable and tf.as_dtype(variable.dtype).is_floating,
    )


def _kernel_of(layer: Any) -> CutKernel | None:
    """The kernel that a layer has made before."""
    kernel = getattr(layer, "_kernel", None)
    kernel = getattr(layer, "kernel", None) if kernel is None else kernel
    layout = getattr(kernel, "_layout", None)
    if kernel is None or layout is None:
        return None
    return CutKernel(tuple(kernel.shape), next(iter(_places(layout.axes)), None))


def _key_value_heads() -> int | None:
    """Of the innermost attention layer that is being built or called."""
    scopes = global_state.get_global_attribute("name_scope_stack") or []
    layers = (scope.caller for scope in reversed(scopes))
    found = (getattr(layer, "num_key_value_heads", None) for layer in layers)
    return next((heads for heads in found if isinstance(heads, int)), None)
