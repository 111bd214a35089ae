"""Patterns of a layout map that are of no use to a model: they match nothing, or cut what is not worth it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_MOST_PATHS = 3


@dataclass(frozen=True)
class PatternedWeight:
    """A weight that patterns may match.

    Attributes:
        path: Its path in the model.
        shape: Its shape.
        is_trained: Whether it is one that an optimizer updates, or was when it was made; others stay whole.
    """

    path: str
    shape: tuple[int, ...]
    is_trained: bool = True


@dataclass(frozen=True)
class LayoutPattern:
    """A pattern of a layout map, and what of a model it matches.

    Attributes:
        text: The pattern.
        axes: The axis of the mesh along which each axis of a weight is cut; None for one that is not.
        weights: The weights that it matches.
        matches_outputs: Whether it matches an output of a layer, too.
    """

    text: str
    axes: tuple[str | None, ...]
    weights: tuple[PatternedWeight, ...] = ()
    matches_outputs: bool = False

    @property
    def trained(self) -> list[PatternedWeight]:
        """The weights that it matches and that are trained."""
        return [weight for weight in self.weights if weight.is_trained]


def pattern_findings(patterns: Sequence[LayoutPattern], sizes: Mapping[str, int], model: str) -> list[str]:
    """Returns a sentence for each pattern of a map that does nothing for a model, or less than it seems to.

    Args:
        patterns: Of the map.
        sizes: The axes of the mesh -> workers along each.
        model: The model's name.
    """
    found = []
    for pattern in patterns:
        if not pattern.weights:
            if not pattern.matches_outputs:
                found.append(
                    f"The pattern {pattern.text!r} of the layout map matches no weight and no output of {model!r}."
                )
        elif not pattern.trained:
            found.append(
                f"The pattern {pattern.text!r} of the layout map matches weights that are not trained, which stay "
                f"whole: {_some([weight.path for weight in pattern.weights])}."
            )
        else:
            found += _short_axes(pattern, sizes)
    return [*found, *_lone_vectors(patterns, sizes)]


def _short_axes(pattern: LayoutPattern, sizes: Mapping[str, int]) -> Iterator[str]:
    """Yields what the pattern cuts into more slices than an axis has elements."""
    by_axis: dict[tuple[int, int], list[str]] = defaultdict(list)
    for weight in pattern.trained:
        for length, name in zip(weight.shape, pattern.axes, strict=False):
            if name is not None and length < sizes[name]:
                by_axis[length, sizes[name]].append(weight.path)
    for (length, shares), paths in by_axis.items():
        elements = "1 element" if length == 1 else f"{length} elements"
        yield (
            f"The pattern {pattern.text!r} of the layout map cuts an axis of {elements} for {shares} workers, some of "
            f"which then have none: {_some(paths)}."
        )


def _lone_vectors(patterns: Sequence[LayoutPattern], sizes: Mapping[str, int]) -> Iterator[str]:
    """Yields which patterns cut a vector of a layer of which no other weight is cut along as long an axis."""
    lengths: dict[str, set[int]] = defaultdict(set)
    for pattern in patterns:
        for weight in pattern.weights:
            if len(weight.shape) > 1:
                lengths[_layer(weight)] |= set(_cut_lengths(pattern, weight, sizes))
    for pattern in patterns:
        paths = [
            weight.path
            for weight in pattern.trained
            if len(weight.shape) == 1
            if any(length not in lengths[_layer(weight)] for length in _cut_lengths(pattern, weight, sizes))
        ]
        if paths:
            yield (
                f"The pattern {pattern.text!r} of the layout map cuts vectors of layers whose other weights are not "
                f"cut alike, which saves next to nothing: {_some(paths)}."
            )


def _cut_lengths(pattern: LayoutPattern, weight: PatternedWeight, sizes: Mapping[str, int]) -> Iterator[int]:
    return (length for length, name in zip(weight.shape, pattern.axes, strict=False) if name and sizes[name] > 1)


def _layer(weight: PatternedWeight) -> str:
    return weight.path.rpartition("/")[0]


def _some(paths: Sequence[str]) -> str:
    more = len(paths) - _MOST_PATHS
    return ", ".join([*paths[:_MOST_PATHS], *([f"and {more} more"] if more > 0 else [])])
