"""Inputs and targets, of a few features each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray

SAMPLES_SHAPES = {
    "vector": (6,),
    "sequence": (7, 4),
    "image": (6, 6, 3),
    "volume": (4, 4, 4, 2),
    "film": (3, 4, 4, 2),
    "films": (2, 3, 3, 3, 2),
    "lines": (3, 5, 2),
    "signal": (64,),
}
"""Floats, by the shape of a sample."""

INTEGERS = {"tokens": ((7,), 20), "number": ((1,), 12)}
"""Whole numbers from 0, by the shape of a sample and how many there are; 0 ends the rows of tokens."""


def inputs(kind: str, samples: int) -> Array:
    """The samples of one kind of input."""
    generator = np.random.default_rng(sum(map(ord, kind)))
    if kind == "strings":
        return np.array(["ape", "bee", "cat", "dog cat", "eel ape bee"])[generator.integers(0, 5, (samples, 1))]
    if kind == "tokens":
        shape, count = INTEGERS[kind]
        ids = generator.integers(1, count, (samples, *shape))
        ids[np.arange(shape[0]) >= generator.integers(1, shape[0] + 1, samples)[:, None]] = 0
        return ids
    if kind in INTEGERS:
        shape, count = INTEGERS[kind]
        return generator.integers(0, count, (samples, *shape))
    if kind == "image":
        return generator.uniform(0.0, 1.0, (samples, *SAMPLES_SHAPES[kind]))
    return generator.normal(size=(samples, *SAMPLES_SHAPES[kind]))


def _one_hot(generator: np.random.Generator, samples: int) -> Array:
    return np.eye(4)[generator.integers(0, 4, samples)]


def _labels_of_sequences(generator: np.random.Generator, samples: int) -> Array:
    return generator.integers(1, 4, (samples, 2))


TARGETS: dict[str, tuple[str, int, Callable[[np.random.Generator, int], Array]]] = {
    "one-hot": ("softmax", 4, _one_hot),
    "classes": ("softmax", 4, lambda generator, samples: generator.integers(0, 4, samples)),
    "binary": ("sigmoid", 1, lambda generator, samples: generator.integers(0, 2, (samples, 1)).astype("float64")),
    "flags": ("sigmoid", 4, lambda generator, samples: generator.integers(0, 2, (samples, 4)).astype("float64")),
    "signs": ("tanh", 1, lambda generator, samples: 2.0 * generator.integers(0, 2, (samples, 1)) - 1.0),
    "numbers": ("linear", 2, lambda generator, samples: generator.normal(size=(samples, 2))),
    "positive": ("softplus", 2, lambda generator, samples: generator.uniform(0.5, 2.0, (samples, 2))),
    "one-hot_float32": ("softmax", 4, _one_hot),
    "classes_float32": ("softmax", 4, lambda generator, samples: generator.integers(0, 4, samples)),
    "embedding": ("linear", 4, lambda generator, samples: generator.integers(0, 4, samples)),
    "transcript": ("sequence", 4, _labels_of_sequences),
}
"""Kinds of targets: the last activation of an output, its size, and the targets themselves."""


def targets(kind: str, samples: int) -> Array:
    """The targets of one kind of output."""
    return TARGETS[kind][2](np.random.default_rng(sum(map(ord, kind))), samples)
