"""Sums over the workers inside of a step that XLA compiles as a whole.

Of TensorFlow's collectives between processes XLA compiles the sum over NCCL, whose group is known while it compiles. It
orders its sums alike on all workers, runs them beside what does not need them, and joins small ones. So a step is one
program, in which no kernel waits for the host. Rows are gathered as a sum, too: every worker fills in zeros for the
rows of the others. For that all workers must have equally many, as a compiled program knows all sizes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import tensorflow as tf

from tfdist.runtime.transport.worker_lane import channel_of

_GROUP_KEY = 743_000
"""Of the workers' GPUs; TensorFlow binds a key to one kind of device, and those of `collectives.groups` are of CPUs."""

_SUMMED = (tf.float64, tf.float32, tf.bfloat16, tf.float16, tf.int32, tf.int64)
_AS_BITS = {tf.float64: tf.int64, tf.float32: tf.int32}
"""By which type rows are gathered bit for bit: a sum with zero makes 0 of -0."""


class _HasSums(Protocol):
    """The settings of a strategy, as far as they are known here."""

    sums: Any


class CannotBeCompiled(Exception):
    """Raised while a step is traced that XLA cannot compile as a whole; its text is the reason."""


class CompiledSums:
    """Sums tensors over the workers in a step that XLA compiles.

    All workers trace the same sums in the same order.

    Args:
        worker: This worker's index.
        workers: How many there are.
        implementation: TensorFlow's name of what carries the sums: `"nccl"` where XLA compiles them; `"ring"` where the
            same step runs without XLA, on CPUs, for which XLA has no sums between processes.

    Attributes:
        on_host: Whether the sums are computed by the host's processor, whose clock can time them.
    """

    on_host = False

    def __init__(self, worker: int, workers: int, implementation: str) -> None:
        self._worker = worker
        self._workers = workers
        self._implementation = implementation
        self._traced = 0
        self._instead_of: Any = None

    @contextlib.contextmanager
    def installed(self, settings: _HasSums) -> Iterator[None]:
        """Makes these the sums of a strategy while the code inside is traced."""
        before, settings.sums, self._traced = settings.sums, self, 0
        self._instead_of = before
        try:
            yield
        finally:
            settings.sums = before

    @contextlib.contextmanager
    def left(self, settings: _HasSums) -> Iterator[None]:
        """Inside of `installed`, for code that runs at once, and is no part of the step."""
        settings.sums = self._instead_of
        try:
            yield
        finally:
            settings.sums = self

    def takes(self, tensor: tf.Tensor | tf.IndexedSlices) -> bool:
        """Returns whether it sums this tensor: all of them, as TensorFlow's own path cannot be compiled."""
        return True

    def sum(
        self, tensors: Sequence[tf.Tensor | tf.IndexedSlices], sent_as: tf.DType | None = None
    ) -> list[tf.Tensor | tf.IndexedSlices]:
        """The sum of each tensor over the workers; slices of all of them, one worker's after another's.

        Args:
            tensors: Dense ones, of one shape on all workers; slices, as many on all workers.
            sent_as: The dtype in which they are sent; None for their own. The sums have that of the tensors.

        Raises:
            CannotBeCompiled: A tensor has a dtype that has no sum.
        """
        return [self._sum(tensor, sent_as or tensor.dtype) for tensor in tensors]

    def gather(self, rows: tf.Tensor) -> tf.Tensor:
        """The rows of all workers, `[workers * n, ...]`, of a tensor `[n, ...]` that has equally many on each.

        Raises:
            CannotBeCompiled: Its dtype has no sum.
        """
        bits = _AS_BITS.get(rows.dtype)
        sent = rows if bits is None else tf.bitcast(rows, bits)
        others = [[self._worker, self._workers - 1 - self._worker], *([0, 0] for _ in range(rows.shape.rank))]
        total = self._reduce(tf.pad(sent[tf.newaxis], others))
        gathered = tf.reshape(total, tf.concat([[-1], tf.shape(rows)[1:]], 0))
        gathered = gathered if bits is None else tf.bitcast(gathered, rows.dtype)
        return tf.ensure_shape(gathered, [None, *rows.shape[1:]])

    def _sum(self, tensor: tf.Tensor | tf.IndexedSlices, sent_as: tf.DType) -> tf.Tensor | tf.IndexedSlices:
        if isinstance(tensor, tf.IndexedSlices):
            values = tf.cast(self.gather(tf.cast(tensor.values, sent_as)), tensor.dtype)
            return tf.IndexedSlices(values, self.gather(tensor.indices), tensor.dense_shape)
        return tf.cast(self._reduce(tf.cast(tensor, sent_as)), tensor.dtype)

    def _reduce(self, tensor: tf.Tensor) -> tf.Tensor:
        if tensor.dtype not in _SUMMED:
            raise CannotBeCompiled(f"numbers of dtype {tensor.dtype.name} cannot be summed over NCCL")
        self._traced += 1
        total = tf.raw_ops.CollectiveReduceV2(
            input=tf.reshape(tensor, [-1]),
            group_size=self._workers,
            group_key=_GROUP_KEY,
            instance_key=self._key(tensor),
            ordering_token=[],
            merge_op="Add",
            final_op="Id",
            communication_hint=self._implementation,
        )
        return tf.reshape(total, tf.shape(tensor))

    def _key(self, tensor: tf.Tensor) -> int | tf.Tensor:
        """The key of a sum: its place among those of the step, which is all that a compiled program needs.

        Where TensorFlow runs the step, it binds a key to one size, in whatever step of whatever model.
        """
        if self._implementation == "nccl":
            return self._traced
        elements = tensor.shape.num_elements()
        return channel_of(
            f"sum {self._traced} of a step", tensor.dtype, tf.size(tensor) if elements is None else elements
        ).key
