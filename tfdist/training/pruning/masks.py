"""The masks of pruned layers: which weights stay, by their magnitude, and the masks that follow from a kernel's.

All of these depend on the weights alone, and equal weights give equal masks: of equal magnitudes the later one in the
array goes first. What is pruned already goes before everything else, so that it never comes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import keras
import numpy as np
from numpy.typing import NDArray

from tfdist.keras_repairs.base.replica_copies import copies
from tfdist.keras_repairs.optimizer.masked_updates import MaskedVariable
from tfdist.training.pruning.channel_graph import ChannelPath
from tfdist.training.pruning.prunable_layers import PrunableLayer
from tfdist.training.pruning.sparsity import CHANNELS, Structure

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


@dataclass(frozen=True)
class _Follower:
    """A variable that has something for each channel, `repeats` times over."""

    masked: MaskedVariable
    repeats: int


class MaskGroup:
    """The masks of a layer.

    Where whole channels go, so do their biases, and the scales and offsets of a BatchNormalization that is applied to
    them: else a channel would still be there, as a constant.

    Args:
        pruned: The layer.
        structure: What is pruned together.
        path: Where its channels go, if they can be followed and channels are pruned.
    """

    def __init__(self, pruned: PrunableLayer, structure: Structure, path: ChannelPath | None = None) -> None:
        self.pruned = pruned
        self.path = path
        self._structure = structure
        self._kernel = MaskedVariable.of(pruned.kernel)
        self._followers = [_Follower(MaskedVariable.of(v), n) for v, n in _following(pruned, structure, path)]

    @property
    def masked(self) -> Iterator[MaskedVariable]:
        """Each variable with its mask."""
        yield self._kernel
        for follower in self._followers:
            yield follower.masked

    @property
    def mask(self) -> NDArray[np.bool_]:
        """The mask of the kernel: True where a weight stays."""
        return self._kernel.read()

    def set_mask(self, mask: NDArray[np.bool_]) -> None:
        """Sets the mask of the kernel, and those that follow from it; the weights stay until masks are applied."""
        self._kernel.write(mask)
        if self._followers:
            channels = mask.any(axis=tuple(range(mask.ndim - 1)))
            for follower in self._followers:
                follower.masked.write(np.tile(channels, follower.repeats))

    def prune(self, sparsity: float) -> None:
        """Chooses by their magnitudes what is left out from now on; nothing that was left out comes back."""
        weights = copies(self.pruned.kernel)[0].numpy()
        self.set_mask(masks_of(self._structure, sparsity, weights, self.mask))


def _following(
    pruned: PrunableLayer, structure: Structure, path: ChannelPath | None
) -> Iterator[tuple[keras.Variable, int]]:
    if structure.name != CHANNELS:
        return
    if pruned.layer.bias is not None:
        yield pruned.layer.bias, 1
    for norm in () if path is None else path.norms:
        yield norm.layer.gamma, norm.repeats
        if norm.layer.center:
            yield norm.layer.beta, norm.repeats
