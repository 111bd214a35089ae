"""Rows that TensorFlow gathers from workers come in the order of the replicas."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.mirrored import mirrored
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


@pytest.mark.usefixtures("repaired")
@pytest.mark.parametrize(
    "dtype", ["complex64", "complex128", "uint64", "uint32", "uint8", "bool", "bfloat16", "float8_e4m3fn"]
)
def test_rows_of_every_dtype(dtype: str) -> None:
    numbers = {"complex64": 1 - 2j, "complex128": 1 - 2j, "uint64": 2**63}
    rows = tf.constant(np.array([[0, 1], [numbers.get(dtype, 1), 0]], tf.as_dtype(dtype).as_numpy_dtype))

    def gathered() -> tf.Tensor:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return gather_rows.all_rows(rows[replica : replica + 1])

    for found in mirrored(2).experimental_local_results(mirrored(2).run(tf.function(gathered))):
        assert found.dtype == rows.dtype
        np.testing.assert_array_equal(found, rows)
