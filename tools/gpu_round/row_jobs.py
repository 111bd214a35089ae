"""Which rows of the table of exactness run in which job of a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Layout = Literal["plain", "one", "workers", "replicas"]

ROWS = (
    "plain",
    "dropout",
    "batch_normalization",
    "mask_of_an_embedding",
    "gradient_accumulation_and_clipping",
    "own_train_step_and_test_step",
    "mixed_float16",
    "default_precision",
    "sparse_gradients_of_an_embedding",
    "circle_loss",
    "metrics_that_are_no_sums",
    "recurrent_layers",
    "attention_and_layer_normalization",
    "add_loss_of_a_mean_and_of_a_vector",
    "convolutions_in_float32",
)
"""One of each path that replicas take, the most used first; a convolution, which XLA compiles for longest, last."""

CUT_ROWS = (
    "plain",
    "gradient_accumulation_and_clipping",
    "mixed_float16",
    "batch_normalization",
    "global_clipnorm",
    "muon",
    "mixed_bfloat16",
)
"""Where workers hold parts."""

PLAIN_ROWS = ("plain", "dropout", "batch_normalization", "mixed_float16", "default_precision", "recurrent_layers")
"""Where plain Keras, without tfdist, is compared."""

TABLE_ROWS = ("mask_of_an_embedding", "sparse_gradients_of_an_embedding")
"""Where tables of embeddings are cut; theirs have 20 rows."""

_WHOLE = 3
_COMPRESSED = 2e-2
"""What 16 bits in what is sent may do to a row in three epochs: bfloat16 rounds each gradient by up to 4e-3."""


@dataclass(frozen=True)
class RowJob:
    """One job that runs rows.

    Attributes:
        name: Of its part.
        about: What it shows.
        layout: On what it runs; `plain` for one device without tfdist.
        rows: What it runs.
        options: More options of `tfdist train`.
        jit: `--jit`, of it and of the job on one device that it is compared with.
        whole: Of how many rows, the first ones, `evaluate` and `predict` are run, too: XLA compiles each of them.
        bound: A bound for all rows in place of smaller ones of their own; None for these.
    """

    name: str
    about: str
    layout: Layout
    rows: tuple[str, ...]
    options: tuple[str, ...] = ()
    jit: str = "auto"
    whole: int = 0
    bound: float | None = None

    @property
    def reference(self) -> str:
        """The name of the job that it is compared with."""
        return f"one-{self.jit}"


def _cut(name: str, about: str, *options: str, rows: tuple[str, ...] = CUT_ROWS, bound: float | None = None) -> RowJob:
    return RowJob(name, f"{about}, on two workers", "workers", rows, options, bound=bound)


def _of_one() -> tuple[str, ...]:
    return tuple(dict.fromkeys((*ROWS, *CUT_ROWS, *TABLE_ROWS)))


ROW_JOBS = (
    RowJob("one-auto", "one device as Keras compiles it", "one", _of_one(), whole=_WHOLE),
    RowJob("workers-auto", "two workers as Keras compiles one device", "workers", ROWS, whole=_WHOLE),
    RowJob("replicas-auto", "two replicas of a process as Keras compiles one device", "replicas", ROWS, whole=_WHOLE),
    _cut("zero1", "--shard zero1", "--shard", "zero1"),
    _cut("zero2", "--shard zero2", "--shard", "zero2"),
    _cut("zero3", "--shard zero3", "--shard", "zero3"),
    RowJob("plain-auto", "plain Keras on one GPU, without tfdist", "plain", PLAIN_ROWS),
    RowJob("one-off", "one device without XLA", "one", ROWS, jit="off"),
    RowJob("workers-off", "two workers without XLA", "workers", ROWS, jit="off"),
    RowJob("replicas-off", "two replicas of a process without XLA", "replicas", ROWS, jit="off"),
    RowJob("one-on", "one device with XLA", "one", ROWS, jit="on"),
    RowJob("workers-on", "two workers with XLA", "workers", ROWS, jit="on"),
    RowJob("replicas-on", "two replicas of a process with XLA", "replicas", ROWS, jit="on"),
    _cut("offload-zero2", "--offload optimizer with --shard zero2", "--shard", "zero2", "--offload", "optimizer"),
    _cut("offload-zero3", "--offload optimizer with --shard zero3", "--shard", "zero3", "--offload", "optimizer"),
    _cut("tables", "--shard-embeddings 5", "--shard-embeddings", "5", rows=TABLE_ROWS),
    _cut("compressed", "--compression bfloat16", "--compression", "bfloat16", bound=_COMPRESSED),
)
"""In the order in which they begin."""
