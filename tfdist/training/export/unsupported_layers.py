"""Names the layers of a model whose operations a format lacks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.training.export.serving_function import ServingFunction

_OF_PYTHON = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
_MOST = 6


def operations(graph: tf.Graph) -> list[tuple[str, str]]:
    """Type and name of every operation of a graph, those of its functions among them."""
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    return [(node.op, node.name) for node in nodes]


def refuse_python(serving: ServingFunction) -> None:
    """Refuses what calls Python while it computes, which is in no artefact.

    Raises:
        UnsupportedError: There is such a layer.
    """
    found = {kind for kind, _ in operations(serving.graph)} & {*_OF_PYTHON}
    if found:
        raise lacking("An artefact", found, serving)


def lacking(
    title: str, kinds: Collection[str], serving: ServingFunction, advice: str = "", nodes: Collection[str] = ()
) -> UnsupportedError:
    """The error for operations that a format does not have, with the layers that need them.

    Args:
        title: The format in words.
        kinds: TensorFlow's types of the operations.
        serving: What was to be exported.
        advice: What may help beside another format.
        nodes: Names of the operations, by which their layers are known where no operation of `serving` is of `kinds`.
    """
    layers = layers_with(kinds, serving) or list(dict.fromkeys(filter(None, (layer_at(n, serving) for n in nodes))))
    shown = _listed(sorted(kinds))
    behind = f" of the layer {_listed(layers)}" if layers else ""
    leave = (
        " Or leave the layer to what calls the model, and export the model behind it: "
        "keras.Model(layer.output, model.output)."
        if layers
        else ""
    )
    return UnsupportedError(
        f"{title} has no operation for {shown}{behind}. Expected layers that it has.{f' {advice}' if advice else ''} "
        f"Choose another --format: savedmodel has what TensorFlow has.{leave}"
    )


def layers_with(kinds: Collection[str], serving: ServingFunction) -> list[str]:
    """The layers whose operations are of these types, as `'name' (Class)`, in the order of the graph."""
    known = {layer.name: type(layer).__name__ for layer in _layers_of(serving.model)}
    found = [_layer_of(name, known) for kind, name in operations(serving.graph) if kind in kinds]
    return list(dict.fromkeys(layer for layer in found if layer))


def kinds_in(message: str, patterns: Collection[str], serving: ServingFunction) -> set[str]:
    """The types of operations that a converter's message names.

    Args:
        message: What it says.
        patterns: Regular expressions, each with a group of names with commas between them.
        serving: What was converted: other words are no types.
    """
    known = {kind for kind, _ in operations(serving.graph)}
    groups = [group for pattern in patterns for group in re.findall(pattern, message)]
    return {word for group in groups for word in re.split(r"[,\s]+", group)} & known


def layer_at(name: str, serving: ServingFunction) -> str:
    """The layer that a node of a converted model comes from, as `'name' (Class)`; empty where its name does not say."""
    return _layer_of(name, {layer.name: type(layer).__name__ for layer in _layers_of(serving.model)})


def _layer_of(name: str, known: Mapping[str, str]) -> str:
    """The innermost layer in the name of an operation, whose parts are layers with numbers behind them."""
    for part in reversed(name.split("/")):
        layer = part if part in known else re.sub(r"_\d+$", "", part)
        if layer in known:
            return f"{layer!r} ({known[layer]})"
    return ""


def _layers_of(layer: Any) -> Iterator[keras.Layer]:
    for below in getattr(layer, "layers", ()):
        yield below
        yield from _layers_of(below)


def _listed(names: Collection[str]) -> str:
    shown = list(names)[:_MOST]
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"{', '.join(shown)}{more}"
