"""The masks of one pruned layer: that of its kernel, and those that follow from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import keras
import numpy as np
from numpy.typing import NDArray

from tfdist.keras_repairs.base.replica_copies import copies
from tfdist.keras_repairs.optimizer.masked_updates import MaskedVariable
from tfdist.training.pruning.channel_graph import ChannelPath
from tfdist.training.pruning.magnitude_masks import masks_of
from tfdist.training.pruning.prunable_layers import PrunableLayer
from tfdist.training.pruning.structure import CHANNELS, Structure


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
