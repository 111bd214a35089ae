"""What a worker stores of a weight."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from tfdist.sharding.cut import Cut


@dataclass(frozen=True, eq=False)
class PartStorage:
    """A worker's part of a weight.

    Attributes:
        variable: Of the shape of the part; this worker's alone.
        cut: How the workers share the weight.
        worker: This one.
        strategy: Whose workers share it, also in threads in which it is not in force.
    """

    variable: tf.Variable
    cut: Cut
    worker: int
    strategy: tf.distribute.Strategy
