"""Rows that TensorFlow gathers from workers come in the order of the replicas."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tfdist.keras_repairs.coupling import gather_rows

WORKERS, OWN = 12, 3


class _NamedWorkers:
    """Stands for the replica context of worker `OWN`: it gathers in the order of names, 10 before 2."""

    def all_gather(self, tensor: tf.Tensor, axis: int) -> tf.Tensor:
        step = 1 if tensor.dtype == tf.int32 else 10
        pieces = [tensor + (worker - OWN) * step for worker in sorted(range(WORKERS), key=str)]
        return tf.concat(pieces, axis)


def test_rows_of_more_than_ten_workers_come_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf.distribute, "get_replica_context", _NamedWorkers)
    monkeypatch.setattr(gather_rows, "replica_count", lambda: WORKERS)
    monkeypatch.setattr(gather_rows, "replica_id", lambda: OWN)
    rows = gather_rows.dense_rows(tf.constant([OWN * 10.0, OWN * 10.0 + 1]))
    assert rows.numpy().tolist() == [worker * 10.0 + row for worker in range(WORKERS) for row in (0, 1)]
