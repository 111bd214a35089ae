"""Sums of gradients that are taken eagerly come in one order, whatever order a tape comes to them in."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfdist.keras_repairs.sharded_parameters.tape_calls import EagerSums, current_sums, next_read, take_eagerly


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]])
def test_sums_come_in_the_order_of_the_sources_and_of_their_reads(order: list[int]) -> None:
    first, second, third = (tf.Variable([float(number)]) for number in range(3))
    reads = [(first, next_read()), (second, next_read()), (second, next_read()), (first, next_read())]
    came: list[int] = []

    def sum_of(place: int) -> tf.Tensor:
        came.append(place)
        return tf.constant([10.0 ** place])

    def gradient(target: tf.Tensor, sources: list[tf.Variable]) -> list[tf.Tensor | None]:
        sums = current_sums()
        assert sums is not None
        stand_ins = {}
        for place in order:
            variable, read = reads[place]
            stand_ins[id(variable)] = sums.put_off(variable, read, lambda place=place: sum_of(place))
        return [stand_ins.get(id(source)) for source in sources]

    taken = take_eagerly(gradient, tf.constant(0.0), [second, third, first])
    assert came == [1, 2, 0, 3] and current_sums() is None
    assert taken[1] is None
    np.testing.assert_array_equal([taken[0].numpy(), taken[2].numpy()], [[110.0], [1001.0]])


@pytest.mark.parametrize("with_dense", [False, True])
def test_sparse_sums_stay_sparse_unless_one_is_dense(with_dense: bool) -> None:
    table = tf.Variable(tf.zeros([4, 2]))
    sums = EagerSums(table)
    rows = [tf.IndexedSlices(tf.ones([1, 2]), tf.constant([row]), tf.constant([4, 2])) for row in (1, 3)]
    parts = [*rows, *([tf.ones([4, 2])] if with_dense else [])]
    for part in parts:
        stand_in = sums.put_off(table, next_read(), lambda part=part: part)
    found = sums.taken(stand_in)
    assert isinstance(found, tf.Tensor if with_dense else tf.IndexedSlices)
    expected = np.array([[0, 0], [1, 1], [0, 0], [1, 1]]) + with_dense
    np.testing.assert_array_equal(tf.convert_to_tensor(found), expected)
