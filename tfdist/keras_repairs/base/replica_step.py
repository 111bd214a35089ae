"""One replica's share of the global batch while its step is traced, and sums over all replicas."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.draw_streams import ReplicaSeeds
from tfdist.keras_repairs.base.spare_generators import BorrowedGenerator, SpareGenerator
from tfdist.keras_repairs.base.step_records import BatchShare, KnownOfStep, KnownUpdate, Mode, StepNotes, StepTrace
from tfdist.runtime.transport import replica_sums
from tfdist.runtime.transport.emulated_replicas import OwnState, emulated_replica


class UnclearSizeError(UnsupportedError):
    """In a step that is traced for batches of one size, a number may be that of the batch, or happen to be the same."""


class TraceAgain(Exception):
    """Raised at the end of a step that is traced, where what it has shown asks for another trace, which is then made.

    The trace that it ends is thrown away before anything of it has run.
    """


class MeetingInXla(Exception):
    """The replicas exchange numbers in what was to be compiled by itself."""


@dataclass(frozen=True, eq=False)
class ReplicaStep:
    """One replica's share of one global batch, while its training, test or predict step is traced.

    Each loss of a step is worth `total / samples` of the replica's summand of the global loss, so that the mean over
    the replicas, weighted by their samples, is the global loss; with one sample more or less it stays near it. In a
    step of Keras the gradient is that of the summand. In a step of the user's, whatever scalar is computed is taken
    for such a mean, and the gradients are weighted where they are reduced.

    Attributes:
        share: Which samples of the global batch are this replica's.
        users: Whether the step or its loss is the user's own code.
        mode: How the replicas share out a step of the user's.
        trace: How it is traced and computed.
        known: What a trial has shown of it.
        data: What it was given; None where nobody has said it.
        noted: What is noted while it is traced; the only part that changes.
    """

    share: BatchShare
    users: bool = False
    mode: Mode = Mode()
    trace: StepTrace = StepTrace()
    known: KnownOfStep = KnownOfStep()
    data: Any = None
    noted: StepNotes = field(default_factory=StepNotes)

    def traced_with(self, **how: bool) -> ReplicaStep:
        """The same step, of which some of `trace` is different."""
        return replace(self, trace=replace(self.trace, **how))

    def within_xla(self, rows: tf.Tensor) -> ReplicaStep:
        """The same step in code that XLA compiles, whose tensors have so many rows."""
        return replace(self.traced_with(within_xla=True), share=replace(self.share, rows=rows))

    def note_update(self, metric: Any) -> KnownUpdate | None:
        """Notes that a mean or a sum is updated; returns what is known of the update."""
        done = self.noted.updated.get(id(metric), 0)
        self.noted.updated[id(metric)] = done + 1
        known = self.known.updates.get(id(metric), ())
        return known[done] if done < len(known) else None

    def weight(self, dtype: tf.DType) -> tf.Tensor | None:
        """By what this replica's gradients are weighted where they are reduced; None where they add up as they are."""
        return self.share.fraction(dtype) if self.users and not self.mode.sums else None

    def worth(self, summand: tf.Tensor, *, is_term: bool = False) -> tf.Tensor:
        """The loss whose mean over the replicas, weighted by their samples, is the sum of their summands.

        Args:
            summand: This replica's.
            is_term: Whether Keras adds the result to the loss of the step as it is, so that its gradient is to be the
                summand's; what the user's code computes from it is weighted later.
        """
        samples, total = (tf.cast(count, summand.dtype) for count in (self.share.samples, self.share.total))
        value = tf.math.divide_no_nan(summand * total, samples)
        return _with_gradient_of(summand, value) if is_term and not self.users else value

    def counted_once(self, x: tf.Tensor) -> tf.Tensor:
        """`x`, which is the same on every replica, such that the sum of all replicas' gradients is its gradient."""
        if self.users:
            # In a step of the user's, gradients are weighted by the replicas' shares, which add up to one.
            return x
        counting = replica_count() if self.share.counting is None else self.share.counting
        return _with_gradient_of(x / tf.cast(counting, x.dtype), x)


@dataclass(frozen=True)
class ReplicaScope:
    """Who runs the code that runs now: a replica, for its part or as one device would, or a trial.

    Attributes:
        strategy: Of the replica; None outside of replicas.
        keras_seeds: What becomes Keras's global generator when the replica is the first to draw.
        tensorflow_seeds: Its seeds for TensorFlow's own random functions.
        step: The replica's step.
        global_batch_step: That of a replica which runs the whole step of one device; see `on_global_batch_step`.
        is_alone: Whether it runs on the whole global batch, or is tried out; see `alone`.
        alone_draws_by_xla: Whether a single replica would compile the step that `alone` is in.
        is_tried_out: See `tried_out`.
        is_of_own_loop: See `of_own_loop`.
        is_compiled_function: Whether it is in a function of the user's that XLA compiles.
        kept: What the user's objects keep of the step of this replica, which other replicas may replace.
        assigns_own_copy: Whether assignments go to the replica's copies of variables alone.
        counts_once: Whether what is summed over the replicas counts once, as all compute the same.
        graph_of_global_batch_step: Where the replicas run a whole step, of which the first one's gradients count; see
            `gradient_sums`.
        writes_of_all: Whether it writes what is that of the global batch on every replica.
    """

    strategy: tf.distribute.Strategy | None = None
    keras_seeds: SpareGenerator | BorrowedGenerator | None = None
    tensorflow_seeds: ReplicaSeeds | None = None
    step: ReplicaStep | None = None
    global_batch_step: ReplicaStep | None = None
    is_alone: bool = False
    alone_draws_by_xla: bool = False
    is_tried_out: bool = False
    is_of_own_loop: bool = False
    is_compiled_function: bool = False
    kept: OwnState | None = None
    assigns_own_copy: bool = False
    counts_once: bool = False
    graph_of_global_batch_step: Any = None
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
        step.noted.gathers = True


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Marks code that a replica runs on the whole global batch, as a single replica would."""
    step = current_step()
    draws_by_xla = is_compiled_alone() if step is None else step.trace.draws_by_xla
    with changing(REPLICA_SCOPE, step=None, is_alone=True, alone_draws_by_xla=draws_by_xla):
        yield


@contextlib.contextmanager
def on_global_batch_step() -> Iterator[None]:
    """Marks code inside of a replica's step as the step of one device on the whole global batch; see `alone`."""
    with changing(REPLICA_SCOPE, global_batch_step=current_step()), alone():
        yield


def global_batch_step() -> ReplicaStep | None:
    """The step of the replica that runs the whole step of one device now; None elsewhere."""
    return REPLICA_SCOPE.get().global_batch_step


def tried_out() -> contextlib.AbstractContextManager[None]:
    """Marks code that is tried out on made-up values, in whatever thread: no other worker takes part."""
    return changing(REPLICA_SCOPE, is_tried_out=True)


def is_tried_out() -> bool:
    """Returns whether the code that runs is tried out; see `tried_out`."""
    return REPLICA_SCOPE.get().is_tried_out


def of_own_loop() -> contextlib.AbstractContextManager[None]:
    """Marks code that is tried out as that of a loop of the user's own, which has no step."""
    return changing(REPLICA_SCOPE, is_of_own_loop=True)


def is_of_own_loop() -> bool:
    """Returns whether the code that runs is that of a loop of the user's own, tried out; see `of_own_loop`."""
    return REPLICA_SCOPE.get().is_of_own_loop


def as_replica(step: ReplicaStep) -> contextlib.AbstractContextManager[None]:
    """Marks code that is tried out as that of one of several emulated replicas, with this step."""
    return changing(REPLICA_SCOPE, is_alone=False, step=step)


def is_compiled_alone() -> bool:
    """Returns whether the code that runs is that of `alone`, in a step that a single replica would compile as a
    whole."""
    return REPLICA_SCOPE.get().alone_draws_by_xla


def is_alone() -> bool:
    """Returns whether the code that runs is run by a replica on the whole global batch, or tried out; see `alone`."""
    return REPLICA_SCOPE.get().is_alone


def replica_count() -> int:
    """Returns how many replicas the current strategy keeps in sync, or are emulated."""
    emulated = emulated_replica()
    return tf.distribute.get_strategy().num_replicas_in_sync if emulated is None else emulated.count


def replica_id() -> Any:
    """Returns which replica runs the code: an int or a scalar int32 tensor. Call it in the context of a replica."""
    emulated = emulated_replica()
    if emulated is not None:
        return emulated.index
    return tf.distribute.get_replica_context().replica_id_in_sync_group


def is_one_of_several() -> bool:
    """Returns whether the code that runs is that of one of several replicas."""
    return not is_alone() and not tf.distribute.in_cross_replica_context() and replica_count() > 1


@tf.custom_gradient
def sum_over_replicas(x: tf.Tensor) -> tuple[tf.Tensor, object]:
    """The sum of `x` over all replicas, with the gradient passed through unchanged.

    Every replica computes the same loss from the sum, and the gradients of all replicas are summed afterwards; so the
    derivative that one replica owes is that of the loss by its own summand, which is 1. (TensorFlow's `all_reduce`
    would sum the incoming gradients and so count every replica R times.)

    Raises:
        MeetingInXla: In a layer that XLA compiles by itself.
    """
    step = current_step()
    if step is not None and step.trace.within_xla:
        raise MeetingInXla
    # Cut off from the graph before it, through which TensorFlow would look for variables of this function.
    (total,) = replica_sums.sum_over_replicas([tf.stop_gradient(x)])
    return total, lambda upstream: upstream


def _with_gradient_of(source: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """`value` going forward, `source` going backward."""

    @tf.custom_gradient
    def forward(source: tf.Tensor) -> tuple[tf.Tensor, object]:
        return tf.stop_gradient(value), lambda upstream: upstream

    return forward(source)
