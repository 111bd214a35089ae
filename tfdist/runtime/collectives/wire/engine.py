"""The engine below all collectives: five primitives on one flat tensor, among the workers of a channel.

Whatever carries bits between workers fits under this interface; everything else (nests, dtypes, checks, gradients,
groups, handles) stands above it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import tensorflow as tf

from tfdist.runtime.collectives.traced_progress import TracedProgress

Reduction = Literal["sum", "product", "max", "min"]


@dataclass(frozen=True)
class Channel:
    """Among which workers a primitive runs, and which of their calls belong together.

    Attributes:
        workers: The workers' indices, ascending. The results of gathers are in their order.
        place: This worker's place among them.
        group_key: Tells groups of workers apart; the same for the same workers and direction.
        key: Tells calls of a group apart; an int, or an int32 scalar in a traced call whose size is not known while it
            is traced. One key stands for one primitive, dtype and size, and is used again for the next such call once
            the earlier one is over on this worker.
    """

    workers: tuple[int, ...]
    place: int
    group_key: int
    key: int | tf.Tensor


class CollectiveEngine(Protocol):
    """Carries flat tensors between workers.

    All workers of a channel call the same primitive, with a tensor `[size]` of one size, at least 1, and one dtype:
    float64, float32, bfloat16, float16, int32 or int64 where it reduces, else int32 or int64. Calls may be eager or
    traced in a `tf.function`, with a size that is not known while it is traced. All workers get the same bits of the
    same sum, and the same again when they repeat it. An eager call returns when this worker's result is there; waits
    are bounded from outside.
    """

    def all_reduce(self, flat: tf.Tensor, op: Reduction, channel: Channel) -> tf.Tensor:
        """The reduction of all workers' tensors, `[size]`, on every worker."""

    def reduce_scatter(self, flat: tf.Tensor, op: Reduction, channel: Channel) -> tf.Tensor:
        """This worker's part, `[size / workers]`, of the reduction of all workers' tensors."""

    def all_gather(self, flat: tf.Tensor, channel: Channel, progress: TracedProgress | None = None) -> tf.Tensor:
        """The tensors of all workers one after another, `[workers * size]`, on every worker.

        In a traced call `progress` counts when it begins, and when it ends or fails.
        """

    def all_to_all(self, flat: tf.Tensor, channel: Channel) -> tf.Tensor:
        """This worker's part of each worker's tensor, in the order of the workers, `[size]`."""

    def broadcast(self, flat: tf.Tensor, root: int, channel: Channel) -> tf.Tensor:
        """The tensor of the worker at place `root`, `[size]`, on every worker."""
