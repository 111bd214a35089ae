"""Removes pruned channels: a model with smaller layers that computes the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from tfdist.training.pruning.channel_graph import WITHOUT_WEIGHTS, CannotRemove, ChannelPath, channel_path
from tfdist.training.pruning.prunable_layers import PrunableLayer, prunable_layers
from tfdist.training.pruning.sparsity import CHANNELS, Structure


@dataclass(frozen=True)
class SmallerModel:
    """A model without its pruned channels.

    Attributes:
        model: The model; the one that was given, where nothing can be removed.
        removed: Name of a layer -> how many channels it has no more.
        kept: Name of a layer that has pruned channels -> why these stay.
    """

    model: keras.Model
    removed: Mapping[str, int]
    kept: Mapping[str, str]


@dataclass(frozen=True)
class _Cuts:
    """The parts that stay of the layers that become smaller, by the ids of the layers, as places along an axis.

    Attributes:
        outputs: Along the channels of Dense and Conv layers.
        inputs: Along the inputs of those that read them.
        norms: Along the axis of BatchNormalization layers.
    """

    outputs: dict[int, NDArray[np.intp]] = field(default_factory=dict)
    inputs: dict[int, NDArray[np.intp]] = field(default_factory=dict)
    norms: dict[int, NDArray[np.intp]] = field(default_factory=dict)

    def add(self, path: ChannelPath, left: NDArray[np.bool_]) -> None:
        """Takes channels out of a layer, and out of all that has something for each of them."""
        self.outputs[id(path.layer)] = np.flatnonzero(left)
        for place, readings in ((self.norms, path.norms), (self.inputs, path.readers)):
            for reading in readings:
                place[id(reading.layer)] = _places(left, reading.repeats)

    def concern(self, layer: keras.layers.Layer) -> bool:
        """Returns whether a layer becomes smaller."""
        return any(id(layer) in cut for cut in (self.outputs, self.inputs, self.norms))


def without_pruned_channels(model: keras.Model) -> keras.Model:
    """A model without the channels that `tfdist.Pruning(structure="channels")` has pruned, with the same outputs.

    Channels of Dense and Conv layers that are zero go, with their biases, what a BatchNormalization has for them, and
    the weights of the layers that read them. Each layer keeps one at least. Where something needs all channels of a
    layer, as an addition does, they stay, as zeros.

    Args:
        model: A built Sequential or functional model, outside of a strategy of several devices: as a file gives it.

    Returns:
        The smaller model, not compiled, with the same names of layers; it shares the layers that stay as they are. The
        model that was given, where nothing can be removed.

    Raises:
        UsageError: The model has no Dense or Conv layers.

    Example:
        tfdist.without_pruned_channels(keras.models.load_model("pruned.keras")).save("small.keras")
    """
    return remove_channels(model).model


def remove_channels(model: keras.Model) -> SmallerModel:
    """As `without_pruned_channels`; it says, too, what has gone, and what has not.

    A channel is pruned where its weights and its bias are zero, and the scale and offset of each BatchNormalization
    behind it.
    """
    cuts, removed, kept = _Cuts(), {}, {}
    for each in prunable_layers(model, Structure(CHANNELS)):
        left = _left(each.kernel, each.layer.bias)
        if left.all():
            continue
        try:
            path = _path(model, each)
        except CannotRemove as reason:
            kept[each.name] = str(reason)
            continue
        for norm in path.norms:
            for scale_or_offset in (norm.layer.gamma, norm.layer.beta if norm.layer.center else None):
                if scale_or_offset is not None:
                    left = np.logical_or(left, _array(scale_or_offset).reshape(norm.repeats, -1).any(axis=0))
        left[0] |= not left.any()
        if left.all():
            kept[each.name] = "has pruned channels that are constants behind it"
            continue
        cuts.add(path, left)
        removed[each.name] = int(np.count_nonzero(~left))
    return SmallerModel(_smaller(model, cuts) if removed else model, removed, kept)


def _path(model: keras.Model, each: PrunableLayer) -> ChannelPath:
    """The way of the channels of a layer, where all on it can be made anew.

    Raises:
        CannotRemove: Something cannot.
    """
    path = channel_path(model, each.layer)
    if not _is_keras_graph(model):
        raise CannotRemove(f"is in {model.name}, a model with a call of its own, which cannot be made anew")
    for layer in (path.layer, *(reading.layer for reading in (*path.norms, *path.readers))):
        if not type(layer).__module__.startswith("keras."):
            raise CannotRemove(f"has channels that {layer.name} takes, of a class of its own: {type(layer).__name__}")
        if layer.quantization_mode is not None:
            raise CannotRemove(f"has channels that {layer.name} takes, which is quantized")
    return path


def _is_keras_graph(model: keras.Model) -> bool:
    return type(model).__module__.startswith("keras.") and type(model) is not keras.Model


def _left(kernel: Any, bias: Any) -> NDArray[np.bool_]:
    """Returns which channels of a layer are not zero."""
    weights = _array(kernel)
    left: NDArray[np.bool_] = np.asarray(weights.reshape(-1, weights.shape[-1]).any(axis=0))
    return left if bias is None else left | (_array(bias) != 0)


def _places(left: NDArray[np.bool_], repeats: int) -> NDArray[np.intp]:
    """The places of what stays, where all channels come one after another, `repeats` times."""
    return np.flatnonzero(np.tile(left, repeats))


def _smaller(model: keras.Model, cuts: _Cuts) -> keras.Model:
    made: list[tuple[keras.layers.Layer, keras.layers.Layer]] = []

    def again(layer: keras.layers.Layer) -> keras.layers.Layer:
        # Others are taken as they are: what they know beside their weights, as a vocabulary, stays.
        if not cuts.concern(layer) and type(layer) not in WITHOUT_WEIGHTS:
            return layer
        config = layer.get_config()
        if id(layer) in cuts.outputs:
            config["units" if isinstance(layer, keras.layers.Dense) else "filters"] = len(cuts.outputs[id(layer)])
        new = type(layer).from_config(config)
        if cuts.concern(layer):
            made.append((layer, new))
        return new

    smaller: keras.Model = keras.models.clone_model(model, clone_function=again, recursive=True)
    for layer, new in made:
        new.set_weights(_cut(layer, cuts))
    return smaller


def _cut(layer: keras.layers.Layer, cuts: _Cuts) -> list[NDArray]:
    """The weights of a layer that stay, in Keras's order."""
    if id(layer) in cuts.norms:
        return [weight[cuts.norms[id(layer)]] for weight in layer.get_weights()]
    kernel = _array(layer.kernel)
    if id(layer) in cuts.inputs:
        kernel = kernel[..., cuts.inputs[id(layer)], :]
    biases = [] if layer.bias is None else [_array(layer.bias)]
    if id(layer) in cuts.outputs:
        kernel = kernel[..., cuts.outputs[id(layer)]]
        biases = [bias[cuts.outputs[id(layer)]] for bias in biases]
    return [kernel, *biases]


def _array(variable: Any) -> NDArray:
    return np.asarray(keras.ops.convert_to_numpy(variable))
