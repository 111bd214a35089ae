"""Patterns of a layout map that are of no use to a model: they match nothing, or cut what is not worth it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

_MOST_PATHS = 3


@dataclass(frozen=True)
class PatternedWeight:
    """A weight that patterns may match.

    Attributes:
        path: Its path in the model.
        shape: Its shape.
        is_trained: Whether it is one that an optimizer updates; others stay whole.
    """

    path: str
    shape: tuple[int, ...]
    is_trained: bool = True


def matches_whole(pattern: str, path: str) -> bool:
    """Returns whether a pattern matches a whole path, as Keras does from 3.14 on."""
    return pattern == path or re.fullmatch(pattern, path) is not None


def pattern_findings(
    patterns: Mapping[str, tuple[str | None, ...]],
    weights: Sequence[PatternedWeight],
    outputs: Sequence[str],
    sizes: Mapping[str, int],
    matches: Callable[[str, str], bool] = matches_whole,
) -> list[str]:
    """Returns a sentence for each pattern of a map that does nothing for a model, or less than it seems to.

    Args:
        patterns: Pattern -> the axis of the mesh along which each axis of a weight is cut.
        weights: The model's.
        outputs: The paths of the outputs of its layers, which patterns may match, too.
        sizes: The axes of the mesh -> workers along each.
        matches: Whether a pattern matches a path.
    """
    matched = {pattern: [each for each in weights if matches(pattern, each.path)] for pattern in patterns}
    found = []
    for pattern, axes in patterns.items():
        of_weights = matched[pattern]
        if not of_weights:
            if not any(matches(pattern, path) for path in outputs):
                found.append(f"The pattern {pattern!r} of the layout map matches no weight and no output of the model.")
        elif not any(weight.is_trained for weight in of_weights):
            found.append(
                f"The pattern {pattern!r} of the layout map matches weights that are not trained, which stay whole: "
                f"{_some([weight.path for weight in of_weights])}."
            )
        else:
            found += _without_gain(pattern, axes, [weight for weight in of_weights if weight.is_trained], sizes)
    return [*found, *_lone_vectors(patterns, matched, sizes)]


def _without_gain(
    pattern: str, axes: tuple[str | None, ...], weights: Sequence[PatternedWeight], sizes: Mapping[str, int]
) -> Iterator[str]:
    """Yields what the pattern cuts into more slices than an axis has elements."""
    by_axis: dict[tuple[int, int], list[str]] = defaultdict(list)
    for weight in weights:
        for place, name in enumerate(axes[: len(weight.shape)]):
            if name is not None and weight.shape[place] < sizes[name]:
                by_axis[weight.shape[place], sizes[name]].append(weight.path)
    for (length, shares), paths in by_axis.items():
        elements = "1 element" if length == 1 else f"{length} elements"
        yield (
            f"The pattern {pattern!r} of the layout map cuts an axis of {elements} for {shares} workers, some of which "
            f"then have none: {_some(paths)}."
        )


def _lone_vectors(
    patterns: Mapping[str, tuple[str | None, ...]],
    matched: Mapping[str, Sequence[PatternedWeight]],
    sizes: Mapping[str, int],
) -> Iterator[str]:
    """Yields which patterns cut a vector of a layer of which no other weight is cut along as long an axis."""
    lengths: dict[str, set[int]] = defaultdict(set)
    for pattern, axes in patterns.items():
        for weight in matched[pattern]:
            if len(weight.shape) > 1:
                lengths[_layer(weight.path)] |= {
                    length for length, name in zip(weight.shape, axes, strict=False) if name and sizes[name] > 1
                }
    for pattern, axes in patterns.items():
        paths = [
            weight.path
            for weight in matched[pattern]
            if len(weight.shape) == 1 and weight.is_trained and _is_cut(axes, sizes)
            if weight.shape[0] not in lengths[_layer(weight.path)]
        ]
        if paths:
            yield (
                f"The pattern {pattern!r} of the layout map cuts vectors of layers whose other weights are not cut "
                f"alike, which saves next to nothing: {_some(paths)}."
            )


def _is_cut(axes: tuple[str | None, ...], sizes: Mapping[str, int]) -> bool:
    return any(name is not None and sizes[name] > 1 for name in axes)


def _layer(path: str) -> str:
    return path.rpartition("/")[0]


def _some(paths: Sequence[str]) -> str:
    more = len(paths) - _MOST_PATHS
    return ", ".join([*paths[:_MOST_PATHS], *([f"and {more} more"] if more > 0 else [])])
