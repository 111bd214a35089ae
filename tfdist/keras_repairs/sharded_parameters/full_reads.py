"""The weights that the layers of a graph read, in the order in which they are put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.attached_value import AttachedValue


@dataclass(eq=False)
class FullRead:
    """A weight that was put together.

    Attributes:
        join: Puts the weight together of this worker's shard.
        shard: This worker's shard.
        full: What was read.
        needs: Tensors and operations that come before what reads it, such as the layer's inputs.
        earlier: The read before it in the same forward pass; None where it is the first, and outside of layers.
        is_read_again: Whether the backward pass is expected to read it.
    """

    join: Callable[[tf.Tensor], tf.Tensor]
    shard: Any = None
    full: Any = None
    needs: Sequence[Any] = ()
    earlier: FullRead | None = None
    is_read_again: bool = False

    def begins_after(self, *, is_ahead: bool) -> Sequence[Any]:
        """Returns what comes before it is put together.

        Args:
            is_ahead: Whether it is sent while the layer before it computes: once that could begin, and what was read
                before that layer is used. So no more than two weights are full.
        """
        if not is_ahead or self.earlier is None:
            return self.needs
        before = self.earlier.earlier
        return [*self.earlier.needs, *(() if before is None else before.full.consumers())]


_LAST: AttachedValue[FullRead] = AttachedValue("last_full_read")


def last_read(graph: Any) -> FullRead | None:
    """The read of a layer that was traced last in the forward pass of a graph."""
    return _LAST.get(graph)


def note_read(graph: Any, read: FullRead | None) -> None:
    """Makes a read the last one of a graph; None where the next one begins a forward pass of its own."""
    _LAST.set(graph, read)
