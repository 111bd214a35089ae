"""The layouts of a model's weights in words and numbers, for plans and for the log."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.keras_repairs.model_checks.model_layers import layers_of, unbuilt_parts
from tfdist.keras_repairs.sharded_parameters.model_parallel import model_parallel
from tfdist.keras_repairs.sharded_parameters.tensor_layouts import TensorParallel
from tfdist.plan.memory.step_sizes import Computed, WeightSizes
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import worker_rank
from tfdist.sharding.layout_patterns import PatternedWeight, pattern_findings


def computed(variable: Any) -> Computed:
    """How the layer of a weight that is cut computes with it."""
    return "gathered"


def with_layouts(sizes: Iterable[WeightSizes], variables: Iterable[Any]) -> list[WeightSizes]:
    """The sizes of weights with their layouts, where a distribution has any.

    Args:
        sizes: Of weights.
        variables: Those weights, in the same order.
    """
    distribution = model_parallel()
    if distribution is None:
        return list(sizes)
    return [_with_layout(size, variable, distribution) for size, variable in zip(sizes, variables, strict=True)]


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
        PatternedWeight(variable.path, tuple(variable.shape), id(variable) in trained) for variable in model.variables
    ]
    outputs = [f"{getattr(layer, 'path', None) or layer.name}/output" for layer in layers_of(model)]
    mesh = distribution.device_mesh
    sizes = dict(zip(mesh.axis_names, mesh.shape, strict=True))
    patterns = {pattern: tuple(layout.axes) for pattern, layout in distribution._layout_map.items()}
    return pattern_findings(patterns, weights, outputs, sizes, _matches)


def _matches(pattern: str, path: str) -> bool:
    """Returns whether a pattern matches a path as this version of Keras matches them."""
    alone = keras.distribution.LayoutMap(None)
    alone[pattern] = keras.distribution.TensorLayout(())
    return alone[path] is not None


def warn_of_layouts(model: Any) -> None:
    """Logs once, on the chief, what `findings_of` a model says, where the model is built.

    Raises:
        UnsupportedError: The run has `--strict`.
    """
    strategy = tf.distribute.get_strategy()
    is_told = worker_rank(strategy) == 0 or settings_of(strategy).strict
    if is_told and model_parallel() is not None and not unbuilt_parts(model):
        for finding in findings_of(model):
            warn_once(finding)


def _with_layout(size: WeightSizes, variable: Any, distribution: Any) -> WeightSizes:
    layout = distribution.get_variable_layout(variable)
    mesh = distribution.device_mesh
    along = dict(zip(mesh.axis_names, mesh.shape, strict=True))
    axes = (*(() if layout is None else layout.axes), *[None] * len(size.value.shape))[: len(size.value.shape)]
    slices = tuple(1 if name is None else along[name] for name in axes)
    is_cut = math.prod(slices) > 1
    reason = getattr(layout, "reason", "by the script's map" if is_cut else "")
    return replace(size, slices=slices, layout=reason, computed=computed(variable) if is_cut else "whole")
