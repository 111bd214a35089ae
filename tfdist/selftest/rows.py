"""Rows of the selftest: what is tried, and how each is judged. Names are a contract: `--only` takes them."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class RowKind(enum.Enum):
    """The way in which a row is judged."""

    COMPARED = "compared"  # a training, recorded step by step and compared with that on one device
    LOADED = "loaded"  # the same, and what it saved is loaded and trained further on one device
    RESUMED = "resumed"  # a training that is killed, and ends as an untouched one, to the bit
    COPIED = "copied"  # copies and sums that are checked to the bit
    TIMED = "timed"  # times of a step, which are not compared


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        name: For tables and `--only`.
        title: For people.
        kind: How it is judged.
    """

    name: str
    title: str
    kind: RowKind = RowKind.COMPARED


ROWS = (
    Row("copies", "copies between devices and sums over them, to the bit", RowKind.COPIED),
    Row("dense", "dense layers, Adam with clipping, metrics, uneven last batches"),
    Row("masks", "an embedding with masks through an LSTM, weights of samples"),
    Row("statistics", "convolutions with BatchNormalization"),
    Row("random", "random layers: augmentation, noise, dropout"),
    Row("embedding", "an embedding with sparse gradients, clipped"),
    Row("accumulation", "gradient accumulation, which an epoch ends inside"),
    Row("own_step", "a train_step of one's own, added losses, regularizers"),
    Row("coupled", "losses over the pairs and the whole of a batch: contrastive, Dice"),
    Row("xla", "jit_compile=True"),
    Row("mixed_float16", "mixed_float16 with loss scaling"),
    Row("mixed_bfloat16", "mixed_bfloat16"),
    Row("saving", "a model saved on several replicas, loaded on one and trained further", RowKind.LOADED),
    Row("resume", "a training killed by SIGKILL and resumed, to the bit", RowKind.RESUMED),
    Row("speed", "times of a step", RowKind.TIMED),
)
"""All rows, in the order in which they run."""
