"""Follows the channels of a layer: through which layers they go, and which layers read them.

A channel can be removed where that changes no output: when the layer makes zeros of it, and so does every layer up to
those that multiply it by weights. Sequential and functional models say in their configs which layer reads which, and
models in models are looked at each by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras

CONVOLUTIONS = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)

_ELEMENTWISE = frozenset(
    ("linear", "relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "swish", "mish", "tanh")
    + ("softsign", "hard_tanh", "hard_silu", "hard_swish", "tanh_shrink", "hard_shrink", "soft_shrink")
)
"""Keras's activations that look at each value by itself; those that make something else of 0 are found by trying."""

_ACTIVATIONS = (keras.layers.Activation, keras.layers.ReLU, keras.layers.LeakyReLU, keras.layers.ELU)

_BY_CHANNEL = tuple(
    getattr(keras.layers, f"{name}{rank}D")
    for name in ("MaxPooling", "AveragePooling", "GlobalMaxPooling", "GlobalAveragePooling", "UpSampling")
    + ("ZeroPadding", "Cropping", "SpatialDropout")
    for rank in (1, 2, 3)
) + (keras.layers.Dropout, keras.layers.GaussianDropout, keras.layers.Identity, keras.layers.ActivityRegularization)
"""Layers that look at each channel by itself, keep it in its place, and make zeros of zeros."""

WITHOUT_WEIGHTS = (*_ACTIVATIONS, *_BY_CHANNEL, keras.layers.Flatten)
"""Layers that channels pass, and that have nothing for each of them."""


@dataclass(frozen=True)
class Reading:
    """A layer that holds something for each channel.

    Attributes:
        layer: The layer.
        repeats: How often it has each channel, one after another for all of them: once for each place of an image after
            a Flatten, else 1.
    """

    layer: keras.layers.Layer
    repeats: int


@dataclass
class ChannelPath:
    """The path of the channels of a layer.

    Attributes:
        layer: The Dense or Conv layer that makes them.
        graph: The model in which it is; its name is the layer's there.
        norms: Layers of BatchNormalization on the way, which have scale, offset and statistics for each channel.
        readers: The Dense and Conv layers that multiply them by weights.
    """

    layer: keras.layers.Layer
    graph: keras.Model
    norms: list[Reading] = field(default_factory=list)
    readers: list[Reading] = field(default_factory=list)


class CannotRemove(Exception):
    """Channels cannot be removed; its text says why, to follow after the name of the layer."""


def channel_path(model: keras.Model, layer: keras.layers.Layer) -> ChannelPath:
    """The way of a layer's channels to those that read them.

    Args:
        model: A built model.
        layer: A Dense or a Conv layer of it, at any depth.

    Raises:
        CannotRemove: They cannot be removed.
    """
    graph = next((each for each in _models(model) if any(layer is one for one in each.layers)), None)
    if graph is None:
        raise CannotRemove("is not in a Sequential or functional model, which would say what reads it")
    edges = _Edges.of(graph)
    if edges is None:
        raise CannotRemove(f"is in {graph.name}, whose config does not say what reads it")
    path = ChannelPath(layer, graph)
    _check_source(layer)
    _follow(path, edges)
    if not path.readers:
        raise CannotRemove("has channels that nothing reads")
    return path


def _models(model: keras.Model) -> Iterator[keras.Model]:
    """Sequential and functional models in a model, itself as well."""
    if _is_graph(model):
        yield model
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            yield from _models(layer)


def _is_graph(model: keras.Model) -> bool:
    # A class of the user's may do anything in its call.
    return type(model).__module__.startswith("keras.") and type(model) is not keras.Model


@dataclass(frozen=True)
class _Edges:
    """Who reads whom in a model.

    Attributes:
        readers: Name of a layer -> names of those that read it, one for each time.
        calls: Name of a layer -> how often it is called.
        inputs: Name of a layer -> how many tensors it reads in all.
        outputs: Names of layers whose outputs are the model's.
    """

    readers: Mapping[str, list[str]]
    calls: Mapping[str, int]
    inputs: Mapping[str, int]
    outputs: frozenset[str]

    @classmethod
    def of(cls, graph: keras.Model) -> _Edges | None:
        try:
            config = graph.get_config()
        except NotImplementedError:
            return None
        layers = config.get("layers")
        if not layers:
            return None
        if isinstance(graph, keras.Sequential):
            names = [layer.name for layer in graph.layers]
            following = {name: [after] for name, after in zip(names, names[1:], strict=False)}
            return cls(following, dict.fromkeys(names, 1), dict.fromkeys(names, 1), frozenset(names[-1:]))
        readers: dict[str, list[str]] = {}
        calls, inputs = {}, {}
        for layer in layers:
            sources = [list(_sources(node)) for node in layer["inbound_nodes"]]
            calls[layer["name"]] = len(sources)
            inputs[layer["name"]] = sum(map(len, sources))
            for source in (each for node in sources for each in node):
                readers.setdefault(source, []).append(layer["name"])
        return cls(readers, calls, inputs, frozenset(_names(config["output_layers"])))


def _sources(node: Any) -> Iterator[str]:
    """The layers whose outputs a call takes, by its config."""
    if isinstance(node, Mapping):
        if node.get("class_name") == "__keras_tensor__":
            yield node["config"]["keras_history"][0]
        else:
            for value in node.values():
                yield from _sources(value)
    elif isinstance(node, list | tuple):
        for value in node:
            yield from _sources(value)


def _names(outputs: Any) -> Iterator[str]:
    """The layers that a config names as outputs: a triple, or lists and dicts of such."""
    if isinstance(outputs, Mapping):
        for value in outputs.values():
            yield from _names(value)
    elif isinstance(outputs, list | tuple):
        if len(outputs) == 3 and isinstance(outputs[0], str):  # noqa: PLR2004 - name, node, tensor
            yield outputs[0]
        else:
            for value in outputs:
                yield from _names(value)


def _check_source(layer: keras.layers.Layer) -> None:
    if not isinstance(layer, (keras.layers.Dense, *CONVOLUTIONS)):
        raise CannotRemove(f"is a {type(layer).__name__}")
    _check_format(layer)
    _check_activation(layer, layer.activation)


def _follow(path: ChannelPath, edges: _Edges) -> None:
    """Follows the channels to what reads them.

    Raises:
        CannotRemove: Something on the way needs all of them, or makes something else of zeros.
    """
    graph, channels = path.graph, path.layer.kernel.shape[-1]
    todo = [(path.layer.name, 1)]
    if edges.calls.get(path.layer.name) != 1:
        raise CannotRemove("is called more than once")
    while todo:
        name, repeats = todo.pop()
        if name in edges.outputs:
            words = "its channels are" if name == path.layer.name else f"its channels are, through {name},"
            raise CannotRemove(f"is at the end: {words} outputs of {graph.name}")
        for reader in edges.readers.get(name, ()):
            layer = next((each for each in graph.layers if each.name == reader), None)
            if layer is None:
                raise CannotRemove(f"is read by the operation {reader}")
            if edges.calls[reader] != 1:
                raise CannotRemove(f"is read by {reader}, which is called more than once")
            if edges.inputs[reader] != 1:
                raise CannotRemove(f"is read by {reader} ({type(layer).__name__}), together with other layers")
            after = _step(path, layer, repeats, channels)
            if after:
                todo.append((reader, after))


def _step(path: ChannelPath, layer: keras.layers.Layer, repeats: int, channels: int) -> int:
    """Takes the channels through a layer; returns how often each is there behind it, 0 where they end there."""
    kind = type(layer).__name__
    if isinstance(layer, (keras.layers.Dense, *CONVOLUTIONS)):
        _check_reader(layer, repeats * channels)
        path.readers.append(Reading(layer, repeats))
        return 0
    if isinstance(layer, keras.layers.BatchNormalization):
        _check_norm(layer, repeats * channels)
        path.norms.append(Reading(layer, repeats))
        return repeats
    if isinstance(layer, keras.layers.Flatten):
        _check_format(layer)
        return repeats * math.prod(layer.input.shape[1:-1])
    if isinstance(layer, _ACTIVATIONS):
        _check_activation(layer, getattr(layer, "activation", None))
        return repeats
    if type(layer) in _BY_CHANNEL:
        _check_format(layer)
        return repeats
    raise CannotRemove(f"is read by {layer.name} ({kind}), through which single channels cannot be followed")


def _check_reader(layer: keras.layers.Layer, inputs: int) -> None:
    _check_format(layer)
    if getattr(layer, "groups", 1) > 1:
        raise CannotRemove(f"is read by {layer.name}, a convolution of {layer.groups} groups")
    kernel = getattr(layer, "kernel", None)
    if not isinstance(kernel, keras.Variable) or kernel.shape[-2] != inputs:
        raise CannotRemove(f"is read by {layer.name}, whose kernel is not one plain variable of its inputs")


def _check_norm(layer: keras.layers.Layer, inputs: int) -> None:
    axis = layer.axis
    if axis not in (-1, len(layer.input.shape) - 1) or layer.moving_mean.shape[0] != inputs:
        raise CannotRemove(f"is read by {layer.name}, which normalizes another axis")
    if not layer.scale:
        raise CannotRemove(f"is read by {layer.name}, which has no scale that could be zero (scale=False)")


def _check_format(layer: keras.layers.Layer) -> None:
    if getattr(layer, "data_format", None) == "channels_first":
        raise CannotRemove(f"has channels that {layer.name} takes first (channels_first)")


def _check_activation(layer: keras.layers.Layer, activation: Any) -> None:
    """Checks that zeros stay zeros, each by itself."""
    if activation is not None:
        name = getattr(activation, "__name__", type(activation).__name__)
        known = getattr(activation, "__module__", "").startswith("keras.") and name in _ELEMENTWISE
        if not known:
            raise CannotRemove(f"has the activation {name} of {layer.name}, which may look at all channels")
        made = activation(keras.ops.zeros((1,)))
    else:
        made = layer.call(keras.ops.zeros((1, 1)))
    if float(keras.ops.convert_to_numpy(made).reshape(-1)[0]) != 0:
        raise CannotRemove(f"has an activation of {layer.name} that makes something else of zeros")
