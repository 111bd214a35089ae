"""Masks by magnitude."""

from __future__ import annotations

import numpy as np
import pytest

from tfdist.training.pruning.masks import channel_mask, masks_of
from tfdist.training.pruning.sparsity import Structure


def mask(structure: str, sparsity: float, weights: np.ndarray, before: np.ndarray | None = None) -> np.ndarray:
    start = np.ones(weights.shape, bool) if before is None else before
    return masks_of(Structure.of(structure), sparsity, weights, start)


def test_the_smallest_go_whatever_their_sign() -> None:
    weights = np.array([[-3.0, 0.5], [0.1, -2.0]])
    assert mask("unstructured", 0.5, weights).tolist() == [[True, False], [False, True]]


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1001])
@pytest.mark.parametrize("sparsity", [0.01, 0.5, 0.8, 0.999])
def test_so_many_go_as_are_asked_for(size: int, sparsity: float) -> None:
    weights = np.random.default_rng(size).normal(size=size).round(1)  # many are equal
    kept = mask("unstructured", sparsity, weights)
    assert size - kept.sum() == int(sparsity * size + 0.5)
    if kept.any() and not kept.all():
        assert np.abs(weights[kept]).min() >= np.abs(weights[~kept]).max()


def test_of_equal_ones_the_later_go() -> None:
    assert mask("unstructured", 0.5, np.ones((2, 2))).tolist() == [[True, True], [False, False]]
    assert mask("1:2", 0.5, np.ones((4, 1))).ravel().tolist() == [True, False, True, False]
    assert channel_mask(0.5, np.ones((3, 4)), np.ones((3, 4), bool)).tolist() == [True, True, False, False]


@pytest.mark.parametrize("structure", ["unstructured", "2:4", "channels"])
def test_nothing_comes_back(structure: str) -> None:
    draws = np.random.default_rng(5)
    kept = np.ones((8, 6), bool)
    for sparsity in (0.2, 0.5, 0.5, 0.3):  # the last one is less, as after a change of the schedule
        before, kept = kept, mask(structure, sparsity, draws.normal(size=(8, 6)), kept)
        assert not (kept & ~before).any()
        draws.normal(size=3)


def test_what_is_pruned_goes_before_a_weight_that_is_zero_by_itself() -> None:
    before = np.array([True, False, True, True])
    assert mask("unstructured", 0.5, np.array([0.0, 0.0, 0.0, 1.0]), before).tolist() == [True, False, False, True]


@pytest.mark.parametrize("shape", [(8, 3), (3, 3, 8, 5)])
def test_a_pattern_is_along_the_inputs(shape: tuple[int, ...]) -> None:
    kept = mask("2:4", 0.5, np.random.default_rng(0).normal(size=shape))
    groups = np.moveaxis(kept, -2, -1).reshape(-1, 4)
    assert (groups.sum(axis=1) == 2).all()
    assert mask("2:4", 0.25, np.random.default_rng(0).normal(size=shape)).mean() == 0.75


def test_channels_are_along_the_last_axis_and_one_stays() -> None:
    weights = np.random.default_rng(0).normal(size=(3, 3, 2, 4)) * [1, 100, 10, 1000]
    kept = mask("channels", 0.5, weights)
    assert kept.all(axis=(0, 1, 2)).tolist() == [False, True, False, True]
    assert kept.any(axis=(0, 1, 2)).tolist() == [False, True, False, True]
    assert mask("channels", 0.99, weights).any(axis=(0, 1, 2)).sum() == 1


def test_a_weight_that_is_no_number_stays() -> None:
    """A training that has diverged is to show it."""
    assert mask("unstructured", 0.5, np.array([np.nan, 1.0, 2.0, 3.0]))[0]
