"""Rows of several workers are exchanged where they have the same other sizes."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from tfdist.keras_repairs.tensor_parallel import row_exchanges
from tfdist.sharding.mesh import ShardGroup

GROUP = ShardGroup((0, 1), 0, (0,), (0, 1))
OWN_LENGTH = 4
FULL = tf.zeros([3, OWN_LENGTH, 6])


def gathered_beside(length: int, shape: list[int | None], monkeypatch: pytest.MonkeyPatch) -> tf.Tensor:
    """The rows of this worker and those of another one with samples of some length."""

    def gather(rows: tf.Tensor, _: Any) -> tuple[tf.Tensor, tf.Tensor]:
        is_of_sizes = rows.dtype == tf.int64
        other = tf.constant([[length, 6]], tf.int64) if is_of_sizes else rows
        return tf.concat([rows, other], 0), tf.constant([3, 3], tf.int64)

    monkeypatch.setattr(row_exchanges, "gather_rows", gather)
    spec = tf.TensorSpec(shape)
    return tf.function(lambda own: row_exchanges.gathered(own, GROUP)[0], [spec], autograph=False)(FULL)


def test_rows_of_one_length(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gathered_beside(OWN_LENGTH, [None, None, 6], monkeypatch).shape == (6, OWN_LENGTH, 6)


def test_rows_of_several_lengths_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"not equally long on all workers.*\[\[4 6\]\[5 6\]\]"):
        gathered_beside(OWN_LENGTH + 1, [None, None, 6], monkeypatch)


def test_sizes_that_are_known_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gathered_beside(OWN_LENGTH + 1, [None, OWN_LENGTH, 6], monkeypatch).shape == (6, OWN_LENGTH, 6)
