"""The layouts of a model's weights in words and numbers, for plans and for the log."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf
from keras.src.layers.convolutional.base_conv import BaseConv

from tfdist.keras_repairs.base.warn_once import point_out_once
from tfdist.keras_repairs.model_checks.model_facts import layers_of, unbuilt_parts
from tfdist.keras_repairs.model_checks.sent_rows import LayerCall, sent_rows
from tfdist.keras_repairs.sharded_parameters.cut_variable import was_trained
from tfdist.keras_repairs.sharded_parameters.model_parallel import model_parallel
from tfdist.keras_repairs.sharded_parameters.tensor_layouts import TensorParallel
from tfdist.plan.memory.step_sizes import Computed, WeightSizes
from tfdist.runtime.workers import worker_rank
from tfdist.sharding.layout_patterns import LayoutPattern, PatternedWeight, pattern_findings

_WITH_SLICES = (keras.layers.Dense, keras.layers.EinsumDense, keras.layers.Embedding, BaseConv)
"""Layers whose products and lookups compute with slices of their weights."""


def computed(variable: Any, layer: Any, slices: tuple[int, ...]) -> Computed:
    """How a layer computes with a weight: in a function, and where what it is called with allows it.

    Args:
        variable: The weight.
        layer: The layer that has made it; None where that is not known.
        slices: Along each of its axes, in how many slices it is cut.
    """
    cut = [axis for axis, count in enumerate(slices) if count > 1]
    if not cut:
        return "whole"
    is_of_channels = not isinstance(layer, BaseConv) or len(slices) == 1 or cut[0] >= len(slices) - 2
    return "slices" if len(cut) == 1 and isinstance(layer, _WITH_SLICES) and is_of_channels else "gathered"


def with_layouts(
    model: Any, sizes: Iterable[WeightSizes], variables: Sequence[Any], calls: Sequence[LayerCall] = ()
) -> list[WeightSizes]:
    """The sizes of weights with their layouts, where a distribution has any.

    Args:
        model: Whose weights these are.
        sizes: Of weights.
        variables: Those weights, in the same order.
        calls: Of its layers in a step, where one was traced.
    """
    distribution = model_parallel()
    if distribution is None:
        return list(sizes)
    owners = {id(variable): layer for layer in layers_of(model) for variable in layer._trainable_variables}
    found = [
        _with_layout(size, variable, owners.get(id(variable)), distribution)
        for size, variable in zip(sizes, variables, strict=True)
    ]
    return _with_rows(found, [owners.get(id(variable)) for variable in variables], calls)


def _with_rows(
    sizes: Sequence[WeightSizes], layers: Sequence[Any], calls: Sequence[LayerCall]
) -> list[WeightSizes]:
    """The sizes of weights with what their layers exchange; of a layer at its kernel or table."""
    kernels = {
        id(layer): place
        for place, (size, layer) in enumerate(zip(sizes, layers, strict=True))
        if size.computed == "slices" and len(size.slices) > 1
    }
    axes = {layer: [count > 1 for count in sizes[place].slices].index(True) for layer, place in kernels.items()}
    found = list(sizes)
    for layer, rows in sent_rows(calls, axes).items():
        found[kernels[layer]] = replace(found[kernels[layer]], rows=rows)
    return found


def findings_of(model: Any) -> list[str]:
    """What is of no use to a model in the layout map that a script has set, in sentences.

    Args:
        model: Built.
    """
    distribution = model_parallel()
    if distribution is None or isinstance(distribution, TensorParallel):
        return []
    trained = {id(variable) for variable in model.trainable_variables}
    weights = [
        PatternedWeight(variable.path, tuple(variable.shape), id(variable) in trained or was_trained(variable))
        for variable in model.variables
    ]
    outputs = [f"{getattr(layer, 'path', None) or layer.name}/output" for layer in layers_of(model)]
    layouts = distribution._layout_map
    # Versions of Keras match a path differently: its map is asked, whose layout it has.
    matched = [(weight, _layout_of(layouts, weight.path)) for weight in weights]
    of_outputs = {id(_layout_of(layouts, path)) for path in outputs}
    patterns = [
        LayoutPattern(
            text,
            tuple(layout.axes),
            tuple(weight for weight, found in matched if found is layout),
            matches_outputs=id(layout) in of_outputs,
        )
        for text, layout in layouts.items()
    ]
    return pattern_findings(patterns, _sizes_of(distribution.device_mesh), model.name)


def warn_of_layouts(model: Any) -> None:
    """Logs once, on the chief, what `findings_of` a model says, where the model is built.

    Of several models with one map, each has patterns that are for another: none is refused for that.
    """
    is_chief = worker_rank(tf.distribute.get_strategy()) == 0
    if is_chief and model_parallel() is not None and not unbuilt_parts(model):
        for finding in findings_of(model):
            point_out_once(finding)


def _with_layout(size: WeightSizes, variable: Any, layer: Any, distribution: Any) -> WeightSizes:
    layout = distribution.get_variable_layout(variable)
    along = _sizes_of(distribution.device_mesh)
    axes = (*(() if layout is None else layout.axes), *[None] * len(size.value.shape))[: len(size.value.shape)]
    slices = tuple(1 if name is None else along[name] for name in axes)
    reason = getattr(layout, "reason", "by the script's map" if math.prod(slices) > 1 else "")
    return replace(size, slices=slices, layout=reason, computed=computed(variable, layer, slices))


def _layout_of(layouts: Any, path: str) -> Any:
    try:
        return layouts[path]
    except ValueError:  # Several patterns match it, which Keras refuses where it asks for the layout itself.
        return None


def _sizes_of(mesh: Any) -> dict[str, int]:
    return dict(zip(mesh.axis_names, mesh.shape, strict=True))
