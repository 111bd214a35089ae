"""Operations on a slice of rows yield the slice of what they yield on all of it, without any exchange."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph

from tfdist.keras_repairs.tensor_parallel import created_operations, operation_rules
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import SlicedRows, SlicedWeight, note, sliced_of
from tfdist.sharding.mesh import ShardGroup

ROWS, BOUNDS = 3, (0, 4, 6)
SHAPES = {2: (ROWS, 6), 3: (ROWS, 4, 6), 4: (ROWS, 4, 5, 6), 5: (ROWS, 2, 4, 5, 6)}
VECTOR = np.arange(6.0)
PLACES = [[0, 0], [1, 2], [0, 0]]
POOL = {"ksize": 2, "strides": 2, "padding": "SAME"}

Function = Callable[[Any], Any]


def _product_of(x: tf.Tensor, axes: list[int]) -> tf.Tensor:
    return tf.reduce_prod(tf.gather(tf.shape(x), axes))


OF_ROWS: dict[str, tuple[int, Function]] = {
    "AddN": (3, lambda x: tf.add_n([x, x, tf.tanh(x)])),
    "AddV2": (3, lambda x: x + VECTOR),
    "All": (3, lambda x: tf.reduce_all(x > -0.5, 1)),
    "Any": (3, lambda x: tf.reduce_any(x > 0.5, 1, keepdims=True)),
    "ArgMax": (3, lambda x: tf.argmax(tf.transpose(x, [0, 2, 1]), -1)),
    "AvgPool": (4, lambda x: tf.nn.avg_pool2d(x, **POOL)),
    "AvgPool3D": (5, lambda x: tf.nn.avg_pool3d(tf.cast(x, tf.float32), **POOL)),
    "BatchMatMulV2": (4, lambda x: tf.matmul(*[tf.transpose(x, [0, 3, 1, 2])] * 2, transpose_b=True)),
    "BiasAdd": (3, lambda x: tf.nn.bias_add(x, VECTOR)),
    "Bitcast": (3, lambda x: tf.bitcast(x, tf.int64)),
    "ConcatV2": (3, lambda x: tf.concat([x, tf.tanh(x)], 1)),
    "Cumsum": (3, lambda x: tf.cumsum(x, 1, reverse=True)),
    "DepthwiseConv2dNative": (4, lambda x: tf.nn.depthwise_conv2d(x, np.ones((2, 2, 6, 2)), [1, 1, 1, 1], "SAME")),
    "Einsum": (4, lambda x: tf.einsum("btsf,busf->bftu", x, tf.tanh(x))),
    "ExpandDims": (3, lambda x: x[:, tf.newaxis] + tf.expand_dims(x, 1)),
    "Fill": (3, lambda x: tf.ones_like(x) + tf.fill(tf.shape(x), tf.constant(2.0, tf.float64))),
    "GatherV2": (3, lambda x: tf.gather(x, [[2, 0], [1, 3]], axis=1)),
    "LogSoftmax": (3, lambda x: tf.transpose(tf.nn.log_softmax(tf.transpose(x, [0, 2, 1])), [0, 2, 1])),
    "Max": (3, lambda x: tf.reduce_max(x, 1)),
    "MaxPool": (4, lambda x: tf.nn.max_pool2d(x, **POOL)),
    "MaxPool3D": (5, lambda x: tf.nn.max_pool3d(tf.cast(x, tf.float32), **POOL)),
    "Mean": (4, lambda x: tf.reduce_mean(x, [1, 2])),
    "Min": (3, lambda x: tf.reduce_min(x, -2, keepdims=True)),
    "MirrorPad": (3, lambda x: tf.pad(x, PLACES, "SYMMETRIC")),
    "Pack": (3, lambda x: tf.stack([x, tf.tanh(x)], 2)),
    "Pad": (3, lambda x: tf.pad(x, PLACES)),
    "PadV2": (3, lambda x: tf.pad(x, PLACES, constant_values=7.0)),
    "Prod": (3, lambda x: tf.reduce_prod(x, 1)),
    "Reshape": (4, lambda x: tf.reshape(tf.reshape(x, [-1, 4, 5, 3, 2]), [-1, 20, 3, 2])),
    "ResizeBicubic": (4, lambda x: tf.image.resize(x, (6, 7), "bicubic")),
    "ResizeBilinear": (4, lambda x: tf.image.resize(x, (6, 7))),
    "ResizeNearestNeighbor": (4, lambda x: tf.image.resize(x, (8, 10), "nearest")),
    "ReverseV2": (3, lambda x: tf.reverse(x, [1])),
    "Slice": (3, lambda x: tf.slice(x, [0, 1, 0], [-1, 2, 6])),
    "Softmax": (3, lambda x: tf.transpose(tf.nn.softmax(tf.transpose(x, [0, 2, 1])), [0, 2, 1])),
    "Split": (3, lambda x: tf.split(x, 2, 1)[1]),
    "SplitV": (3, lambda x: tf.split(x, [1, 3], 1)[1]),
    "Squeeze": (3, lambda x: tf.squeeze(x[:, 1:2], 1)),
    "StridedSlice": (4, lambda x: x[:, 1, ::2]),
    "Sum": (4, lambda x: tf.reduce_sum(x, 2, keepdims=True)),
    "Transpose": (4, lambda x: tf.transpose(x, [0, 3, 2, 1])),
    "Unpack": (4, lambda x: tf.unstack(x, axis=2)[1]),
    "rows and places together": (3, lambda x: tf.reshape(tf.reshape(x, [-1, 6]), [-1, 4, 6])),
    "sizes as of tensordot": (3, lambda x: tf.reshape(x, [_product_of(x, [0, 1]), _product_of(x, [2])])),
    "pooling in one dimension": (3, lambda x: keras.ops.max_pool(x, 2, padding="same")),
}

OF_OPEN_ROWS: dict[str, Function] = {
    "rows and places together": lambda x: tf.reshape(tf.reshape(x, [-1, 6]), tf.shape(x)),
    "parts of features": lambda x: tf.reshape(tf.reshape(x, [tf.shape(x)[0], -1, 3, 2]), [-1, tf.shape(x)[1], 3, 2, 1]),
    "rotated halves": lambda x: tf.reshape(tf.stack([-x, tf.tanh(x)], 2), [tf.shape(x)[0], -1, 2, 6]),
}
"""Of rows with a number of places that is not known."""

OF_WEIGHTS: dict[str, Function] = {
    "element by element": lambda w: tf.square(tf.cast(w, tf.float32)) * 2.0 + np.arange(6, dtype="float32"),
    "sum": lambda w: tf.reduce_sum(w, 0),
    "reshape": lambda w: tf.reshape(w, [1, 4, 1, 3, 2]),
    "transpose": tf.transpose,
    "product": lambda w: tf.matmul(np.arange(8.0).reshape(2, 4), w),
    "product with the weight first": lambda w: tf.matmul(w, np.arange(8.0).reshape(4, 2), transpose_a=True),
}

NEED_OWN_ROWS: dict[str, Function] = {
    "places that the own rows decide on": lambda x: x[:, : tf.cast(tf.reduce_sum(tf.abs(x[:1, :1, :1])) > 0, tf.int32)],
    "as many places as own rows": lambda x: x[:, : tf.shape(x)[0]],
    "the row of a batch of one": lambda x: tf.squeeze(x, [0]),
    "places before rows": lambda x: tf.reshape(tf.reshape(x, [-1, 6]), [2, -1, 6]),
    "places before rows of some number": lambda x: tf.reshape(tf.reshape(x, [-1, 6]), [2, tf.shape(x)[0], 6]),
}
"""What is not the same of the rows of all workers."""


@pytest.fixture(autouse=True)
def repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    create = created_operations.create_operation(FuncGraph._create_op_internal)
    monkeypatch.setattr(FuncGraph, "_create_op_internal", create)


def slice_of(share: int, function: Function, full: np.ndarray, axis: int, shape: Any) -> tuple[np.ndarray, Any]:
    """What one of two workers computes of its slice, and what it knows of that."""
    found: list[Any] = []

    def traced() -> tf.Tensor:
        own = tf.constant(full.take(range(*BOUNDS[share : share + 2]), axis))
        x, of_rows = tf.compat.v1.placeholder(full.dtype, shape), shape[0] is None
        group = ShardGroup((0, 1), share, (share,), (0, 1))
        counts = tf.compat.v1.placeholder_with_default(np.array([2, 1]), [2])
        rows = SlicedRows(own, axis, BOUNDS, group, counts, x)
        note(x, rows if of_rows else SlicedWeight(own, axis, BOUNDS, group, lambda: x))
        found.append(sliced_of(function(x)))
        assert found[0] is not None, "computed of the full tensor"
        return found[0].slice

    return tf.function(traced, autograph=False)().numpy(), found[0]


def assert_slices(function: Function, full: np.ndarray, shape: Any) -> None:
    axis = full.ndim - 1
    expected = np.asarray(function(tf.constant(full)))
    for share in (0, 1):
        own, part = slice_of(share, function, full, axis, shape)
        start, stop = part.bounds[share : share + 2]
        np.testing.assert_allclose(own, expected.take(range(start, stop), part.axis), 1e-6)


@pytest.mark.parametrize("name", OF_ROWS)
def test_slices_of_rows(name: str) -> None:
    rank, function = OF_ROWS[name]
    full = np.random.default_rng(0).normal(size=SHAPES[rank])
    assert_slices(function, full, [None, *full.shape[1:]])


def test_what_waits_for_a_full_tensor_waits_for_the_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    repaired = created_operations.control_dependencies(FuncGraph.control_dependencies)
    monkeypatch.setattr(FuncGraph, "control_dependencies", repaired)

    def waiting(x: Any) -> Any:
        with tf.control_dependencies([x]):
            return tf.tanh(x)

    full = np.random.default_rng(0).normal(size=SHAPES[3])
    assert_slices(waiting, full, [None, *full.shape[1:]])


@pytest.mark.parametrize("name", NEED_OWN_ROWS)
def test_what_needs_own_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tf.compat.v1.placeholder
    monkeypatch.setattr(SlicedRows, "full", lambda rows: own(rows.slice.dtype, [None, *rows.shape[1:]]))
    found: list[Any] = []

    def traced() -> None:
        x = own(tf.float64, [1 if "one" in name else None, 4, 6])
        group, counts = ShardGroup((0, 1), 0, (0,), (0, 1)), own(tf.int64, [2])
        note(x, SlicedRows(tf.zeros([3, 4, 4], tf.float64), 2, BOUNDS, group, counts, x))
        found.append(sliced_of(NEED_OWN_ROWS[name](x)))

    tf.function(traced, autograph=False).get_concrete_function()
    assert found == [None]


@pytest.mark.parametrize("name", OF_OPEN_ROWS)
def test_slices_of_rows_with_any_number_of_places(name: str) -> None:
    full = np.random.default_rng(0).normal(size=SHAPES[3])
    assert_slices(OF_OPEN_ROWS[name], full, [None, None, 6])


@pytest.mark.parametrize("name", OF_WEIGHTS)
def test_slices_of_weights(name: str) -> None:
    full = np.random.default_rng(0).normal(size=(4, 6))
    assert_slices(OF_WEIGHTS[name], full, full.shape)


def test_each_rule_is_tried() -> None:
    others = {"BatchMatMulV3", "MatMul"}
    assert operation_rules._RULES.keys() - OF_ROWS.keys() == others
