"""The seeds and the streams of numbers that a replica's step takes for TensorFlow's own random functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.attached_value import AttachedValue

_SEEDS = 2**31 - 1


@dataclass(frozen=True)
class SharedSeeds:
    """The source from which the replicas of a strategy draw their seeds.

    Attributes:
        generator: A `SeedGenerator` with a copy of its state for each replica.
        first: The seed that it began with, the same on all workers.
    """

    generator: Any
    first: int


class ReplicaSeeds:
    """The seeds that one replica takes while its code runs or is traced; all replicas take the same ones in turn.

    Attributes:
        streams: What it draws with seeds of the script's; None outside of steps of which that is known.

    Args:
        shared: The seeds.
        common: What the replicas of this worker compute once for all of them, in their order.
    """

    def __init__(self, shared: SharedSeeds, common: dict[tuple[int, int], Any]) -> None:
        self.streams: ReplicaStreams | None = None
        self._common = common
        self._taken: dict[int, int] = {}
        self._shared = shared
        self._fixed = 0

    @property
    def state(self) -> Any:
        """The variable that `next` advances."""
        return self._shared.generator.state

    def next(self) -> tf.Tensor:
        """The next seed, [2], another one in every step."""
        seed: tf.Tensor = self._shared.generator.next()
        return seed

    def once(self, owner: Any, compute: Callable[[], tf.Tensor]) -> tf.Tensor:
        """Returns what the first of this worker's replicas has computed at the same place of the code; see
        `once_on_worker`."""
        done = self._taken.get(id(owner), 0)
        self._taken[id(owner)] = done + 1
        found = self._common.get((id(owner), done))
        if found is None:
            found = self._common[id(owner), done] = compute()
        graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        if graph is not None and found.graph is not graph:
            raise UnsupportedError(
                "A tf.random.Generator that was made outside of the strategy's scope was used in a loop or a branch of "
                "a step, where the replicas of a worker cannot share its state. Make it inside of the scope, as `with "
                "tfdist.strategy().scope()` or in the __init__ of a layer that is made there, or draw before the loop."
            )
        return found

    def next_fixed(self) -> tuple[int, int]:
        """The next pair of seeds for an operation that has a state of its own, the same in every step."""
        self._fixed += 1
        return self._shared.first % _SEEDS, self._fixed


MOST_DRAWS = 64
"""Operations of one step that draw with a seed."""


class DrawStreams:
    """The streams of one step of a model: of `train_step`, say.

    Attributes:
        copies: A count for each replica of this worker, int64 [MOST_DRAWS], all the same; none before the first draw.
        is_taken: Whether a function of the step draws from them. The next function begins anew, as on one device.

    Args:
        strategy: Of several replicas.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        self._spec: Any = None
        self.copies: tuple[tf.Variable, ...] = ()
        self.is_taken = False

    def make(self) -> None:
        """Makes the counts, where they are not made yet, whatever graph is being traced."""
        if self.copies:
            return
        # Under a graph of its own: a function being traced would count them as its own and be traced anew.
        with tf.Graph().as_default(), context.eager_mode():
            self.copies = tuple(_count_on(device) for device in self._strategy.extended.worker_devices)

    def note_batches(self, spec: Any) -> None:
        """Notes that steps with batches of a dataset come next.

        Args:
            spec: The dataset's, as plain Keras has it.

        Raises:
            UnsupportedError: Steps with others have drawn already: one device would begin new streams for them.
        """
        if self._spec is not None and spec != self._spec and self.copies:
            raise UnsupportedError(
                "A step that draws with a function of tf.random and a seed was given batches of another kind than "
                f"before, for which one device begins with the first numbers again. Expected: {self._spec}. Received: "
                f"{spec}. Compile the model once more between the two, which does so everywhere, or draw with "
                "keras.random and seed=keras.random.SeedGenerator(...) made once."
            )
        self._spec = spec

    def of_replica(self, place: int, *, by_graph: bool = False) -> ReplicaStreams | None:
        """Returns what a replica draws in one trace of the step; None where the batches are of no dataset.

        Args:
            place: Of the replica among those of this worker.
            by_graph: Whether TensorFlow counts the operations of the graph, in which no other replica has any.
        """
        return None if self._spec is None else ReplicaStreams(self, place, by_graph)


class ReplicaStreams:
    """The streams of a step as one replica draws from them in one trace.

    Attributes:
        graph: Of the step: what stands in a loop or a branch is in another one.
        by_graph: See `DrawStreams.of_replica`.
        open_seeds: Seeds of a script's that no operation has drawn with yet.
    """

    def __init__(self, streams: DrawStreams, place: int, by_graph: bool) -> None:
        self._streams = streams
        self._place = place
        self._unseeded = 0
        self._drawn = 0
        self.graph = tf.compat.v1.get_default_graph()
        self.by_graph = by_graph
        self.open_seeds = 0

    def next_seed(self) -> int:
        """The seed of the next operation that is given none of its own: how many there were before."""
        self._unseeded += 1
        return self._unseeded - 1

    def next_place(self) -> int:
        """The place of the next draw among those of the step.

        Raises:
            UnsupportedError: There are too many.
        """
        self._streams.make()
        if self._drawn == MOST_DRAWS:
            raise UnsupportedError(
                f"A step draws with more than {MOST_DRAWS} operations of tf.random and a seed. Draw with keras.random "
                "and seed=keras.random.SeedGenerator(...) made once."
            )
        self._drawn += 1
        return self._drawn - 1

    def begin(self, place: int) -> tf.Tensor:
        """Returns how many blocks of numbers the draw at this place has taken in the steps before, a scalar int64."""
        return self._streams.copies[self._place][place]

    def advance(self, place: int, blocks: tf.Tensor) -> None:
        """Counts what the draw at this place takes in this step."""
        taken = tf.cast(blocks, tf.int64) * tf.one_hot(place, MOST_DRAWS, dtype=tf.int64)
        self._streams.copies[self._place].assign_add(taken, read_value=False)


_STREAMS: AttachedValue[dict[str, DrawStreams]] = AttachedValue("draw_streams")


def streams_of(model: Any) -> dict[str, DrawStreams]:
    """The streams of the steps of a model, by the method whose steps they are: "fit" or "evaluate"."""
    return _STREAMS.get_or_make(model, dict)


def new_streams(model: Any, call: str) -> DrawStreams:
    """Those of a function of a step that is made now: new ones, or such that a resumed training has restored."""
    known = streams_of(model)
    if call not in known or known[call].is_taken:
        known[call] = DrawStreams(model.distribute_strategy)
    known[call].is_taken = True
    return known[call]


def _count_on(device: str) -> tf.Variable:
    with tf.device(device):
        return tf.Variable(tf.zeros([MOST_DRAWS], tf.int64), trainable=False, name="tfdist_drawn")
