"""Measures how much an artefact's outputs differ from those of Keras, and how often they name the same label."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

LabelRule = Literal["argmax", "half", "sign"]
"""The rule by which an output becomes a label: its largest entry, or whether it is above 0.5, or above 0."""

_SUM_TOLERANCE = 1e-3


@dataclass(frozen=True)
class OutputComparison:
    """One output, in both.

    Attributes:
        name: Its name.
        difference: The greatest difference of two numbers, over the larger one of 1 and the largest magnitude that
            Keras's output has; 0 or infinity where they must be equal: for integers, texts, NaN and shapes.
        sample: The number of the sample where that is; -1 where the shapes or types differ.
        same_labels: Samples of the same label; None where it has none.
        labels: Labels in all.
        remark: What differs beside numbers; empty where nothing does.
    """

    name: str
    difference: float
    sample: int = 0
    same_labels: int | None = None
    labels: int = 0
    remark: str = ""


def shows_nothing(outputs: Mapping[str, NDArray], inputs: Iterable[NDArray]) -> str:
    """Returns why none of a model's outputs shows what is computed, in words; empty where one does.

    A model whose outputs are all integers may well give one label to all samples.

    Args:
        outputs: Name -> [samples, ...].
        inputs: What they are of, [samples, ...].
    """
    differ = any(bool(np.any(array != array[:1])) for array in inputs)
    why = {name: _shows_nothing(output, differ) for name, output in outputs.items()}
    if not why or not all(why.values()) or all(_kind(output) != "float" for output in outputs.values()):
        return ""
    return "; ".join(f"the output {name!r} is {reason}" for name, reason in why.items())


def compare_output(name: str, keras: NDArray, found: NDArray, rule: LabelRule | None = None) -> OutputComparison:
    """Compares one output.

    Args:
        name: Its name.
        keras: Keras's, [samples, ...].
        found: The artefact's.
        rule: How it becomes labels; None where it has none.
    """
    if keras.shape != found.shape:
        return OutputComparison(name, math.inf, -1, remark=f"shape {list(found.shape)} for {list(keras.shape)}")
    if _kind(keras) != _kind(found):
        return OutputComparison(name, math.inf, -1, remark=f"{found.dtype.name} for {keras.dtype.name}")
    by_sample = _differences(keras, found)
    sample = int(np.argmax(by_sample)) if by_sample.size else 0
    greatest = float(by_sample[sample]) if by_sample.size else 0.0
    if rule is None:
        return OutputComparison(name, greatest, sample)
    ours, theirs = labels_of(keras, rule), labels_of(found, rule)
    return OutputComparison(name, greatest, sample, int(np.sum(ours == theirs)), int(ours.size))


def labels_of(output: NDArray, rule: LabelRule) -> NDArray:
    """The labels of an output, int64 or bool."""
    if rule == "argmax":
        return np.argmax(output, axis=-1)
    return np.asarray(output > (0.5 if rule == "half" else 0.0))


def label_rule(output: NDArray, loss: str = "", activation: str = "") -> LabelRule | None:
    """Returns how an output becomes labels, by what it was trained with, else by its values; None for what is no
    classifier.

    Args:
        output: Keras's, [samples, ...].
        loss: The name of its loss; empty where unknown.
        activation: The name of its layer's activation; empty where unknown.
    """
    if not np.issubdtype(output.dtype, np.floating) or output.ndim < 2:
        return None
    if output.shape[-1] > 1 and ("categorical" in loss or activation == "softmax" or _are_probabilities(output)):
        return "argmax"
    if activation == "sigmoid":
        return "half"
    if "binary" in loss:
        return "half" if output.size and output.min() >= 0 and output.max() <= 1 else "sign"
    return None


def _shows_nothing(output: NDArray, inputs_differ: bool) -> str:
    where = f" in all {len(output):,} samples" if len(output) > 1 else ""
    if _kind(output) == "float" and output.size and not np.any(np.isfinite(output.astype(np.float64))):
        return f"NaN or infinite{where}"
    return f"the same{where}" if inputs_differ and np.all(output == output[:1]) else ""


def _are_probabilities(output: NDArray) -> bool:
    return bool(output.size and output.min() >= 0 and np.all(np.abs(output.sum(axis=-1) - 1) < _SUM_TOLERANCE))


def _kind(array: NDArray) -> str:
    """Formats hold numbers in other widths: what differs by them shows in the numbers."""
    if np.issubdtype(array.dtype, np.floating) or array.dtype.name == "bfloat16":
        return "float"
    if np.issubdtype(array.dtype, np.integer):
        return "integer"
    return array.dtype.kind


def _differences(keras: NDArray, found: NDArray) -> NDArray[np.float64]:
    """The greatest difference in each sample."""
    axes = tuple(range(1, keras.ndim))
    if _kind(keras) != "float":
        return np.where(np.any(keras != found, axis=axes), math.inf, 0.0)
    ours, theirs = keras.astype(np.float64), found.astype(np.float64)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    finite = np.isfinite(ours)
    scale = max(1.0, float(np.max(np.abs(ours[finite]), initial=0.0)))
    with np.errstate(invalid="ignore"):
        apart = np.where(finite & np.isfinite(theirs), np.abs(ours - theirs) / scale, math.inf)
    return np.max(np.where(same, 0.0, apart), axis=axes, initial=0.0)
