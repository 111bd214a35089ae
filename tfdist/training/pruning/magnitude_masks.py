"""Masks by magnitude: which weights of a layer stay.

All of these depend on the weights alone, and equal weights give equal masks: of equal magnitudes the later one in the
array goes first. What is pruned already goes before everything else, so that it never comes back.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tfdist.training.pruning.structure import CHANNELS, Structure

Mask = NDArray[np.bool_]


def masks_of(structure: Structure, sparsity: float, weights: np.ndarray, mask: Mask) -> Mask:
    """The mask of a kernel, of its own shape: True where a weight stays.

    Args:
        structure: What is pruned together. Channels are along the last axis, and patterns along the one before it, the
            inputs of a layer.
        sparsity: The share that is to be pruned now; below that of a pattern, fewer of each group go.
        weights: The kernel, of any float type.
        mask: The mask so far.
    """
    magnitudes = np.where(mask, _magnitudes(weights.astype(np.float32)), -1.0)
    if structure.is_pattern:
        groups = np.moveaxis(magnitudes, -2, -1).reshape(-1, structure.group)
        pruned = int(sparsity * structure.group + 1e-6)
        kept = _largest_of_rows(groups, structure.group - pruned)
        moved = np.moveaxis(magnitudes, -2, -1).shape
        return np.ascontiguousarray(np.moveaxis(kept.reshape(moved), -1, -2)) & mask
    if structure.name == CHANNELS:
        return np.broadcast_to(channel_mask(sparsity, weights, mask), weights.shape).copy()
    flat = magnitudes.reshape(-1)
    return _largest(flat, flat.size - pruned_of(flat.size, sparsity)).reshape(weights.shape) & mask


def channel_mask(sparsity: float, weights: np.ndarray, mask: Mask) -> Mask:
    """Returns which channels along the last axis stay, of shape [channels]: those of the largest sums of magnitudes.

    Li et al., "Pruning filters for efficient convnets" (2017). One channel stays at least.
    """
    others = tuple(range(weights.ndim - 1))
    sums = _magnitudes(weights.astype(np.float64)).sum(axis=others)
    there = mask.any(axis=others)
    norms = np.where(there, sums, -1.0)
    return _largest(norms, max(1, norms.size - pruned_of(norms.size, sparsity))) & there


def pruned_of(size: int, sparsity: float) -> int:
    """Returns how many of `size` weights a sparsity prunes: the nearest number."""
    return int(sparsity * size + 0.5)


def _magnitudes(weights: np.ndarray) -> np.ndarray:
    """Magnitudes; what is no number is the largest, as a training that has diverged is to show it."""
    return np.nan_to_num(np.abs(weights), nan=np.inf, posinf=np.inf)


def _largest(magnitudes: np.ndarray, count: int) -> Mask:
    """Marks the `count` largest of a vector, in linear time; of equal ones, the first."""
    size = magnitudes.size
    if count >= size:
        return np.ones(size, bool)
    if count <= 0:
        return np.zeros(size, bool)
    smallest_kept = np.partition(magnitudes, size - count)[size - count]
    kept = magnitudes > smallest_kept
    ties = np.flatnonzero(magnitudes == smallest_kept)
    kept[ties[: count - int(kept.sum())]] = True
    return kept


def _largest_of_rows(rows: np.ndarray, count: int) -> Mask:
    """Marks the `count` largest of each row; of equal ones, the first."""
    order = np.argsort(-rows, axis=-1, kind="stable")
    kept = np.zeros(rows.shape, bool)
    np.put_along_axis(kept, order[:, :count], True, axis=-1)
    return kept
