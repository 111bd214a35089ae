"""The records of a replica's step: its samples, how it is shared out and traced, what is known and noted of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf


@dataclass(frozen=True, eq=False)
class BatchShare:
    """The samples of a global batch that are a replica's.

    A replica without samples has one row to work on nevertheless (see `batch_rows`); what that yields is left out.

    Attributes:
        samples: Scalar int64 tensor, how many; may be 0.
        rows: Scalar int64 tensor, how many rows the replica's tensors have: `samples`, or 1 where that is 0; more while
            XLA compiles a layer for padded ones.
        first: Scalar int64 tensor, the place of the first of the samples in the global batch.
        total: Scalar int64 tensor, the samples of the global batch.
        counting: Scalar int64 tensor, how many replicas have a sample; the others' gradients are left out. None where
            all are known to have one.
        static_rows: `rows` where the tensors' shapes say it while the step is traced, else None.
        static_total: `total` in a trace for batches of one size, else None.
        capacity: Scalar int64 tensor, the most rows that a replica got of a batch so far, where it is known.
        has_all_rows: Whether the replica is given the whole global batch, of which it cannot be given a piece.
        is_equal: Whether all replicas are known to have as many samples, in any batch that the step is traced for.
    """

    samples: tf.Tensor
    rows: tf.Tensor
    first: tf.Tensor
    total: tf.Tensor
    counting: tf.Tensor | None
    static_rows: int | None = None
    static_total: int | None = None
    capacity: tf.Tensor | None = None
    has_all_rows: bool = False
    is_equal: bool = False

    def may_be_of_samples(self, shape: tf.TensorShape) -> bool:
        """Returns whether the first dimension of `shape` may be that of the samples, which a fixed one is not among
        others."""
        return shape[0] is None or self.static_rows is not None

    @property
    def surely_has_samples(self) -> bool:
        """True if it is known while the step is traced that the replica has a sample: nothing need be left out."""
        return self.counting is None or bool(tf.get_static_value(self.samples))

    def of_samples(self, value: tf.Tensor) -> tf.Tensor:
        """`value`, or zeros where the replica has no sample: it reaches neither a sum nor, multiplied, a gradient."""
        return value if self.surely_has_samples else tf.where(self.samples > 0, value, tf.zeros_like(value))

    def fraction(self, dtype: tf.DType) -> tf.Tensor:
        """The replica's part of the samples of the global batch: a scalar between 0 and 1."""
        return tf.cast(self.samples, dtype) / tf.cast(self.total, dtype)

    def summand_of_mean(self, mean: tf.Tensor) -> tf.Tensor:
        """Returns what a mean over the replica's own samples adds to the mean over the global batch."""
        return self.of_samples(mean) * self.fraction(mean.dtype)


@dataclass(frozen=True)
class Mode:
    """The mode in which replicas share out a step of the user's own.

    Attributes:
        sums: Whether its losses are sums over the samples, and gradients are added up.
        stacks: Whether draws of several times the rows are of batches that it has put one after the other.
        sums_at_tape: Whether gradients by variables are summed over the replicas where a tape gives them.
        gathered_methods: The model's methods that are called with the rows of all replicas.
        on_global_batch: Whether every replica runs the whole step, on the rows of all replicas: exact whatever it does.
    """

    sums: bool = False
    stacks: bool = False
    sums_at_tape: bool = False
    gathered_methods: tuple[str, ...] = ()
    on_global_batch: bool = False


@dataclass(frozen=True)
class StepTrace:
    """The settings by which a step is traced and computed.

    Attributes:
        compiles: Whether the model's forward and backward pass are compiled with XLA.
        draws_by_xla: Whether a single replica would compile them: it draws with XLA's generator, which orders its
            numbers in another way. XLA may not compile the step of a replica that meets the others in its middle.
        within_xla: Whether the code being traced now is compiled with XLA.
        builds: Whether it is traced to build what is not built yet, and is to be traced once more then.
        sums_results: Whether metrics give their results over all replicas in it, at the price of a collective each.
    """

    compiles: bool = False
    draws_by_xla: bool = False
    within_xla: bool = False
    builds: bool = False
    sums_results: bool = False


@dataclass(frozen=True)
class KnownUpdate:
    """The facts known of an update of a mean or a sum in a step of the user's own.

    Attributes:
        has_vector_of_batch: Whether its values are a vector with a size of its own, rather than some of each sample.
        has_same_weight: Whether its weight is the same whatever samples there are.
    """

    has_vector_of_batch: bool
    has_same_weight: bool


@dataclass(frozen=True)
class KnownOfStep:
    """The facts that a trial has shown of a step of the user's.

    Attributes:
        updates: Of means and sums, by the metric's id, in their order.
        gathered: What the user's functions and layers gather in it, in order: which leaves have samples.
    """

    updates: Mapping[int, Sequence[KnownUpdate]] = field(default_factory=dict)
    gathered: Sequence[tuple[bool, ...]] = ()


@dataclass(eq=False)
class StepNotes:
    """The notes on a step while it is traced, made by whoever traces it.

    Attributes:
        added_losses: What layers have given to `add_loss`, by the layer's id.
        updated: How often a mean or a sum was updated, by the id of the metric.
        results: What metrics gave as their results, with what reads them over all replicas after the step.
        shared: Tensors that are the same on every replica.
        left_out: Whether the replica has no sample and others of its group have some, by the graph and the group.
        gathered: What was gathered by the user's functions and layers, in order: which leaves had samples.
        sized_by_rows: Results of operations that do not depend on the values of the data, or whose sizes do not.
        seeds_taken: A digest of the seeds that were taken for its draws, in their order, where it runs eagerly.
        read_parts: Variables with a part on each replica that the user's code has read, where it runs eagerly.
        python_results: The names and the results of calls of Python in a step that is traced.
        declares_scalars: Whether the user's code has said of a scalar what it is.
        gathers: Whether the replicas exchange tensors whose sizes may differ from step to step.
        draws_own: Whether the replica draws numbers of its own, without a seed that the others have, too.
    """

    added_losses: dict[int, list[tf.Tensor]] = field(default_factory=dict)
    updated: dict[int, int] = field(default_factory=dict)
    results: list[tuple[tf.Tensor, Callable[[], Any]]] = field(default_factory=list)
    shared: list[Any] = field(default_factory=list)
    left_out: dict[Any, tf.Tensor] = field(default_factory=dict)
    gathered: list[tuple[bool, ...]] = field(default_factory=list)
    sized_by_rows: set[tuple[int, int, bool]] = field(default_factory=set)
    seeds_taken: int = 0
    read_parts: list[Any] = field(default_factory=list)
    python_results: list[tuple[str, list[tf.Tensor]]] = field(default_factory=list)
    declares_scalars: bool = False
    gathers: bool = False
    draws_own: bool = False
