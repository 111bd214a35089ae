"""Derived layouts: along which axis a weight is cut for tensor parallelism, from its layer's kind and a few numbers.

For `--tensor`, where neither the script nor the model's class says it: of a pair of products the wider one in the
middle is cut, so that the first is cut by columns and the second by rows; attention by heads; embeddings and what is
as wide as they are by vocabulary; convolutions by output channels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tfdist.sharding.sharding_mode import WHOLE_BELOW

FEW_ROWS = 1 << 10
"""Rows of an embedding from which on it is cut: those of fewer are positions, types of tokens and the like."""

LARGE = 1 << 20
"""Elements from which on a weight is cut that nothing is known of: it is gathered where it is read."""


@dataclass(frozen=True)
class CutKernel:
    """The kernel of a layer that has been made before another of its weights.

    Attributes:
        shape: Its shape.
        axis: The one along which it is cut; None where it is not.
    """

    shape: tuple[int, ...]
    axis: int | None


@dataclass(frozen=True)
class MadeWeight:
    """A weight as its layer makes it.

    Attributes:
        kinds: The names of Keras's classes that the layer is of, its own first.
        layer: The layer's name.
        name: The weight's name in the layer.
        shape: Its shape.
        kernel: The layer's kernel; None where there is none yet.
        equation: That of an `EinsumDense` layer.
        key_value_heads: Heads of keys and values of the attention layer around it, which may be fewer than those of
            queries; None where there is none.
        is_trained: Whether it is one that an optimizer updates, of floats.
    """

    kinds: tuple[str, ...]
    layer: str
    name: str
    shape: tuple[int, ...]
    kernel: CutKernel | None = None
    equation: str | None = None
    key_value_heads: int | None = None
    is_trained: bool = True

    @property
    def size(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class DerivedLayout:
    """Along which axis a weight is cut.

    Attributes:
        axis: The axis; None where every worker has the whole weight.
        reason: Why, as a part of a sentence.
    """

    axis: int | None
    reason: str


def derived_layout(weight: MadeWeight, shares: int) -> DerivedLayout:
    """Derives along which axis a weight is cut.

    Args:
        weight: The weight.
        shares: The number of workers that share it.
    """
    if not weight.is_trained:
        return DerivedLayout(None, "not trained")
    if weight.name == "bias" and weight.kernel is not None:
        return _bias(weight, weight.kernel)
    if len(weight.shape) < 2:
        return DerivedLayout(None, "a vector")
    if weight.size < WHOLE_BELOW:
        return DerivedLayout(None, "small")
    if weight.name.startswith("lora_"):
        return DerivedLayout(None, "of a low rank")
    rule = next((_RULES[kind] for kind in weight.kinds if kind in _RULES), _unknown)
    found = rule(weight, shares)
    if found.axis is None or weight.shape[found.axis] >= shares:
        return found
    return DerivedLayout(None, f"{weight.shape[found.axis]} {found.reason.removeprefix('by ')} for {shares} workers")


def _dense(weight: MadeWeight, shares: int) -> DerivedLayout:
    inputs, units = weight.shape
    return DerivedLayout(1, "by columns") if units >= inputs else DerivedLayout(0, "by rows")


def _einsum_dense(weight: MadeWeight, shares: int) -> DerivedLayout:
    inputs, kernel, outputs = _letters(weight)
    if len(kernel) != len(weight.shape):
        return _unknown(weight, shares)
    made = [letter for letter in kernel if letter in outputs and letter not in inputs]
    summed = [letter for letter in kernel if letter in inputs and letter not in outputs]
    sizes = dict(zip(kernel, weight.shape, strict=True))

    def width(letters: list[str]) -> tuple[int, int]:
        return len(letters), math.prod(sizes[letter] for letter in letters)

    if not made and not summed:
        return _unknown(weight, shares)
    by_columns = width(made) >= width(summed)
    axis = kernel.index((made if by_columns else summed)[0])
    if max(len(made), len(summed)) == 1:
        return DerivedLayout(axis, "by columns" if by_columns else "by rows")
    heads = weight.key_value_heads
    if heads is not None and heads == weight.shape[axis] and heads % shares and weight.layer in ("key", "value"):
        return DerivedLayout(None, f"{heads} heads of keys and values for {shares} workers")
    return DerivedLayout(axis, "by heads")


def _letters(weight: MadeWeight) -> tuple[str, str, str]:
    """The letters of the axes of inputs, kernel and outputs."""
    left, _, outputs = (weight.equation or "").replace("...", "").replace(" ", "").partition("->")
    inputs, _, kernel = left.partition(",")
    return inputs, kernel, outputs


def _bias(weight: MadeWeight, kernel: CutKernel) -> DerivedLayout:
    """A bias is cut as the outputs are, where its kernel cuts these."""
    whole = DerivedLayout(None, "for whole outputs")
    if kernel.axis is None:
        return whole
    if "EinsumDense" in weight.kinds:
        _, letters, outputs = _letters(weight)
        letter = letters[kernel.axis]
        own = outputs[len(outputs) - len(weight.shape) :]
        axis = own.find(letter)
        is_cut = axis >= 0 and weight.shape[axis] == kernel.shape[kernel.axis]
        return DerivedLayout(axis, "with its kernel") if is_cut else whole
    of_outputs = len(kernel.shape) - (2 if "BaseConvTranspose" in weight.kinds else 1)
    return DerivedLayout(0, "with its kernel") if kernel.axis == of_outputs else whole


def _embedding(weight: MadeWeight, shares: int) -> DerivedLayout:
    axis = 1 if weight.name == "reverse_embeddings" else 0
    if weight.shape[axis] < FEW_ROWS:
        return DerivedLayout(None, "few rows")
    return DerivedLayout(axis, "by vocabulary")


def _convolution(weight: MadeWeight, shares: int) -> DerivedLayout:
    if weight.name == "depthwise_kernel":
        return DerivedLayout(None, "a kernel for each channel")
    return DerivedLayout(len(weight.shape) - 1, "by channels")


def _transposed_convolution(weight: MadeWeight, shares: int) -> DerivedLayout:
    return DerivedLayout(len(weight.shape) - 2, "by channels")


def _unknown(weight: MadeWeight, shares: int) -> DerivedLayout:
    if weight.size < LARGE:
        return DerivedLayout(None, "layer not known")
    axis = max(range(len(weight.shape)), key=weight.shape.__getitem__)
    return DerivedLayout(axis, "large, longest axis")


def _whole(reason: str) -> Callable[[MadeWeight, int], DerivedLayout]:
    return lambda weight, shares: DerivedLayout(None, reason)


_OF_LOOPS = _whole("read in a loop")

_RULES: Mapping[str, Callable[[MadeWeight, int], DerivedLayout]] = MappingProxyType(
    {
        "Dense": _dense,
        "EinsumDense": _einsum_dense,
        "Embedding": _embedding,
        "PositionEmbedding": _whole("read as a whole"),
        "BaseConv": _convolution,
        "BaseSeparableConv": _convolution,
        "BaseConvTranspose": _transposed_convolution,
        "BaseDepthwiseConv": _whole("a kernel for each channel"),
        **dict.fromkeys(("SimpleRNNCell", "LSTMCell", "GRUCell", "ConvLSTMCell"), _OF_LOOPS),
    }
)
"""Kind of layer -> its rule."""
