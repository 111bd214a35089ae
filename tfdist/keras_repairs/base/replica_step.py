"""One replica's share of the global batch while its step is traced, and sums over all replicas."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.draw_streams import ReplicaSeeds
from tfdist.keras_repairs.base.spare_generators import BorrowedGenerator, SpareGenerator
from tfdist.runtime.transport import replica_sums
from tfdist.runtime.transport.emulated_replicas import OwnState, emulated_replica


class UnclearSizeError(UnsupportedError):
    """In a step that is traced for batches of one size, a number may be that of the batch, or happen to be the same."""


class TraceAgain(Exception):
    """Raised at the end of a step that is traced, where what it has shown asks for another trace, which is then made.

    The trace that it ends is thrown away before anything of it has run.
    """


@dataclass(frozen=True)
class KnownUpdate:
    """What is known of an update of a mean or a sum in a step of the user's own.

    Attributes:
        has_vector_of_batch: Whether its values are a vector with a size of its own, rather than some of each sample.
        has_same_weight: Whether its weight is the same whatever samples there are.
    """

    has_vector_of_batch: bool
    has_same_weight: bool


class ReplicaStep:
    """One replica's share of one global batch, while its training, test or predict step is traced.

    A replica without samples has one row to work on nevertheless (see `batch_rows`); what that yields is left out.

    Each loss of a step is worth `total / samples` of the replica's summand of the global loss, so that the mean over
    the replicas, weighted by their samples, is the global loss; with one sample more or less it stays near it. In a
    step of Keras the gradient is that of the summand. In a step of the user's, whatever scalar is computed is taken
    for such a mean, and the gradients are weighted where they are reduced.

    Attributes:
        samples: Scalar int64 tensor, how many samples of the global batch are this replica's; may be 0.
        rows: Scalar int64 tensor, how many rows the replica's tensors have: `samples`, or 1 where that is 0; more while
            XLA compiles a layer for padded ones.
        first: Scalar int64 tensor, the place of the first of the samples in the global batch.
        static_rows: `rows` where the tensors' shapes say it while the step is traced, else None.
        sized_by_rows: Results of operations that do not depend on the values of the data, or whose sizes do not.
        stacks: Whether draws of several times the rows are of batches that the step has put one after the other.
        sums_at_tape: Whether gradients by variables are summed over the replicas where a tape gives them.
        is_whole: Whether every replica runs the whole step, on the rows of all replicas.
        has_all_rows: Whether it is given the whole global batch, of which it cannot be given a piece, for that.
        total: Scalar int64 tensor, the samples of the global batch.
        users: Whether the step or its loss is the user's own code.
        sums: Whether what it computes as losses there are sums over the samples, so that gradients add up as they are.
        counting: Scalar int64 tensor, how many replicas have a sample; the others' gradients are left out. None where
            all are known to have one.
        capacity: Scalar int64 tensor, the most rows that a replica got of a batch so far, where it is known.
        compiles: Whether the model's forward and backward pass are compiled with XLA.
        draws_by_xla: Whether a single replica would compile them: it draws with XLA's generator, which orders its
            numbers in another way. XLA may not compile the step of a replica that meets the others in its middle.
        within_xla: Whether the code being traced now is compiled with XLA.
        added_losses: What layers have given to `add_loss` in this step, by the layer's id.
        updated: How often a mean or a sum was updated in this step, by the id of the metric.
        results: What metrics gave as their results in it, with what reads them over all replicas after the step.
        sums_results: Whether metrics give their results over all replicas in it, at the price of a collective each.
        shared: Tensors that are the same on every replica.
        gathered: What was gathered by the user's functions and layers in this step, in order: which leaves had samples.
        known_gathered: The same as a trial has shown it.
        known_updates: What a trial has shown of the updates of means and sums, by the metric's id, in their order.
        seeds_taken: A digest of the seeds that were taken for its draws, in their order, where it runs eagerly.
        read_parts: Variables with a part on each replica that the user's code has read, where it runs eagerly.
        data: What the step was given; None where nobody has said it.
        python_results: The names and the results of calls of Python in a step that is traced.
        gathers: Whether the replicas exchange tensors in it whose sizes may differ from step to step.
        draws_own: Whether the replica draws numbers of its own in it, without a seed that the others have, too.
        builds: Whether it is traced to build what is not built yet, and is to be traced once more then.
    """

    def __init__(
        self,
        samples: tf.Tensor,
        rows: tf.Tensor,
        first: tf.Tensor,
        total: tf.Tensor,
        counting: tf.Tensor | None,
        static_rows: int | None = None,
        *,
        capacity: tf.Tensor | None = None,
        users: bool = False,
        compiles: bool = False,
        draws_by_xla: bool = False,
    ) -> None:
        self.samples = samples
        self.rows = rows
        self.sized_by_rows: set[tuple[int, int, bool]] = set()
        self.first = first
        self.static_rows = static_rows
        self.total = total
        self.counting = counting
        self.capacity = capacity
        self.users = users
        self.sums = False
        self.stacks = False
        self.sums_at_tape = False
        self.is_whole = False
        self.has_all_rows = False
        self.compiles = compiles
        self.draws_by_xla = draws_by_xla
        self.within_xla = False
        self.added_losses: dict[int, list[tf.Tensor]] = {}
        self.updated: dict[int, int] = {}
        self.results: list[tuple[tf.Tensor, Callable[[], Any]]] = []
        self.sums_results = False
        self.shared: list[Any] = []
        self.gathered: list[tuple[bool, ...]] = []
        self.known_gathered: Sequence[tuple[bool, ...]] = ()
        self.known_updates: Mapping[int, Sequence[KnownUpdate]] = {}
        self.seeds_taken = 0
        self.read_parts: list[Any] = []
        self.data: Any = None
        self.python_results: list[tuple[str, list[tf.Tensor]]] = []
        self.gathers = users
        self.draws_own = False
        self.builds = False

    def may_be_of_samples(self, shape: tf.TensorShape) -> bool:
        """Whether the first dimension of `shape` may be that of the samples, which a fixed one is not among others."""
        return shape[0] is None or self.static_rows is not None

    def note_update(self, metric: Any) -> KnownUpdate | None:
        """Notes that a mean or a sum is updated; returns what is known of the update."""
        done = self.updated.get(id(metric), 0)
        self.updated[id(metric)] = done + 1
        known = self.known_updates.get(id(metric), ())
        return known[done] if done < len(known) else None

    @property
    def surely_has_samples(self) -> bool:
        """Whether it is known while the step is traced that the replica has a sample: nothing need be left out."""
        return self.counting is None or bool(tf.get_static_value(self.samples))

    def of_samples(self, value: tf.Tensor) -> tf.Tensor:
        """`value`, or zeros where the replica has no sample: it reaches neither a sum nor, multiplied, a gradient."""
        return value if self.surely_has_samples else tf.where(self.samples > 0, value, tf.zeros_like(value))

    @contextlib.contextmanager
    def having_rows(self, rows: tf.Tensor) -> Iterator[None]:
        """The replica's tensors have so many rows in the code inside."""
        before, self.rows = self.rows, rows
        try:
            yield
        finally:
            self.rows = before

    def share(self, dtype: tf.DType) -> tf.Tensor:
        """The replica's part of the samples of the global batch: a scalar between 0 and 1."""
        return tf.cast(self.samples, dtype) / tf.cast(self.total, dtype)

    def weight(self, dtype: tf.DType) -> tf.Tensor | None:
        """By what this replica's gradients are weighted where they are reduced; None where they add up as they are."""
        return self.share(dtype) if self.users and not self.sums else None

    def worth(self, summand: tf.Tensor, *, is_term: bool = False) -> tf.Tensor:
        """The loss whose mean over the replicas, weighted by their samples, is the sum of their summands.

        Args:
            summand: This replica's.
            is_term: Whether Keras adds the result to the loss of the step as it is, so that its gradient is to be the
                summand's; what the user's code computes from it is weighted later.
        """
        samples, total = (tf.cast(count, summand.dtype) for count in (self.samples, self.total))
        value = tf.math.divide_no_nan(summand * total, samples)
        return _with_gradient_of(summand, value) if is_term and not self.users else value

    def summand_of_mean(self, mean: tf.Tensor) -> tf.Tensor:
        """What a mean over the replica's own samples adds to the mean over the global batch."""
        return self.of_samples(mean) * self.share(mean.dtype)

    def counted_once(self, x: tf.Tensor) -> tf.Tensor:
        """`x`, which is the same on every replica, such that the sum of all replicas' gradients is its gradient."""
        if self.users:
            # In a step of the user's, gradients are weighted by the replicas' shares, which add up to one.
            return x
        counting = replica_count() if self.counting is None else self.counting
        return _with_gradient_of(x / tf.cast(counting, x.dtype), x)


@dataclass(frozen=True)
class ReplicaScope:
    """Who runs the code that runs now: a replica, for its part or as one device would, or a trial.

    Attributes:
        strategy: Of the replica; None outside of replicas.
        keras_seeds: What becomes Keras's global generator when the replica is the first to draw.
        tensorflow_seeds: Its seeds for TensorFlow's own random functions.
        step: The replica's step.
        whole_step: That of a replica which runs the whole step of one device; see `on_whole_step`.
        is_alone: Whether it runs on the whole global batch, or is tried out; see `alone`.
        alone_draws_by_xla: Whether a single replica would compile the step that `alone` is in.
        is_tried_out: See `tried_out`.
        is_of_own_loop: See `of_own_loop`.
        kept: What the user's objects keep of the step of this replica, which other replicas may replace.
        assigns_own_copy: Whether assignments go to the replica's copies of variables alone.
        counts_once: Whether what is summed over the replicas counts once, as all compute the same.
        graph_of_whole_step: Where the replicas run a whole step, of which the first one's gradients count; see
            `alike_gradients`.
        writes_of_all: Whether it writes what is that of the global batch on every replica.
    """

    strategy: tf.distribute.Strategy | None = None
    keras_seeds: SpareGenerator | BorrowedGenerator | None = None
    tensorflow_seeds: ReplicaSeeds | None = None
    step: ReplicaStep | None = None
    whole_step: ReplicaStep | None = None
    is_alone: bool = False
    alone_draws_by_xla: bool = False
    is_tried_out: bool = False
    is_of_own_loop: bool = False
    kept: OwnState | None = None
    assigns_own_copy: bool = False
    counts_once: bool = False
    graph_of_whole_step: Any = None
    writes_of_all: bool = False


_OUTSIDE = ReplicaScope()

REPLICA_SCOPE: contextvars.ContextVar[ReplicaScope] = contextvars.ContextVar("tfdist_replica_scope", default=_OUTSIDE)


def current_step() -> ReplicaStep | None:
    """The step being traced on this replica, or None outside of `fit`, `evaluate` and their kin, or on one replica.

    Loops that users write by hand keep Keras's own scaling, which TensorFlow's guides are written for.
    """
    return REPLICA_SCOPE.get().step


def this_step() -> ReplicaStep:
    """The step being traced on this replica, for code that runs within one alone."""
    step = current_step()
    assert step is not None, "outside of a replica's step"
    return step


def replica_step(step: ReplicaStep | None) -> contextlib.AbstractContextManager[None]:
    """Marks the code inside as one replica's share of a repaired step."""
    return changing(REPLICA_SCOPE, step=step)


def note_gathering() -> None:
    """Notes that the step being traced, if one is, gathers tensors whose sizes may differ from step to step."""
    step = current_step()
    if step is not None:
        step.gathers = True


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Marks code that a replica runs on the whole global batch, as a single replica would."""
    step = current_step()
    draws_by_xla = is_compiled_alone() if step is None else step.draws_by_xla
    with changing(REPLICA_SCOPE, step=None, is_alone=True, alone_draws_by_xla=draws_by_xla):
        yield


@contextlib.contextmanager
def on_whole_step() -> Iterator[None]:
    """Marks code inside of a replica's step as the step of one device on the whole global batch; see `alone`."""
    with changing(REPLICA_SCOPE, whole_step=current_step()), alone():
        yield


def whole_step() -> ReplicaStep | None:
    """The step of the replica that runs the whole step of one device now; None elsewhere."""
    return REPLICA_SCOPE.get().whole_step


def tried_out() -> contextlib.AbstractContextManager[None]:
    """Marks code that is tried out on made-up values, in whatever thread: no other worker takes part."""
    return changing(REPLICA_SCOPE, is_tried_out=True)


def is_tried_out() -> bool:
    """Whether the code that runs is tried out; see `tried_out`."""
    return REPLICA_SCOPE.get().is_tried_out


def of_own_loop() -> contextlib.AbstractContextManager[None]:
    """Marks code that is tried out as that of a loop of the user's own, which has no step."""
    return changing(REPLICA_SCOPE, is_of_own_loop=True)


def is_of_own_loop() -> bool:
    """Whether the code that runs is that of a loop of the user's own, tried out; see `of_own_loop`."""
    return REPLICA_SCOPE.get().is_of_own_loop


def as_replica(step: ReplicaStep) -> contextlib.AbstractContextManager[None]:
    """Marks code that is tried out as that of one of several emulated replicas, with this step."""
    return changing(REPLICA_SCOPE, is_alone=False, step=step)


def is_compiled_alone() -> bool:
    """Whether the code that runs is that of `alone`, in a step that a single replica would compile as a whole."""
    return REPLICA_SCOPE.get().alone_draws_by_xla


def is_alone() -> bool:
    """Whether the code that runs is run by a replica on the whole global batch, or tried out; see `alone`."""
    return REPLICA_SCOPE.get().is_alone


def replica_count() -> int:
    """How many replicas the current strategy keeps in sync, or are emulated."""
    emulated = emulated_replica()
    return tf.distribute.get_strategy().num_replicas_in_sync if emulated is None else emulated.count


def replica_id() -> Any:
    """Which replica runs the code: an int or a scalar int32 tensor. Call it in the context of a replica."""
    emulated = emulated_replica()
    if emulated is not None:
        return emulated.index
    return tf.distribute.get_replica_context().replica_id_in_sync_group


def is_one_of_several() -> bool:
    """Whether the code that runs is that of one of several replicas."""
    return not is_alone() and not tf.distribute.in_cross_replica_context() and replica_count() > 1


@tf.custom_gradient
def sum_over_replicas(x: tf.Tensor) -> tuple[tf.Tensor, object]:
    """The sum of `x` over all replicas, with the gradient passed through unchanged.

    Every replica computes the same loss from the sum, and the gradients of all replicas are summed afterwards; so the
    derivative that one replica owes is that of the loss by its own summand, which is 1. (TensorFlow's `all_reduce`
    would sum the incoming gradients and so count every replica R times.)
    """
    # Cut off from the graph before it, through which TensorFlow would look for variables of this function.
    (total,) = replica_sums.sum_over_replicas([tf.stop_gradient(x)])
    return total, lambda upstream: upstream


def _with_gradient_of(source: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """`value` going forward, `source` going backward."""

    @tf.custom_gradient
    def forward(source: tf.Tensor) -> tuple[tf.Tensor, object]:
        return tf.stop_gradient(value), lambda upstream: upstream

    return forward(source)
