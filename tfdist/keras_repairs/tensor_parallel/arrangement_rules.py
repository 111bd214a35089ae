"""Other arrangements of slices: of their axes and sizes, in parts, and joined."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import tensor_util

from tfdist.keras_repairs.base.size_origins import depends_on_batch
from tfdist.keras_repairs.tensor_parallel.row_exchanges import slices_of_all
from tfdist.keras_repairs.tensor_parallel.rule_results import (
    Compute,
    Input,
    Result,
    Rule,
    is_of_all,
    rows_like,
    value_of,
    weight_like,
)
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import SlicedRows, SlicedTensor, SlicedWeight

Bounds = tuple[int, ...]


def _transpose(compute: Compute, inputs: Sequence[Input], _: Mapping[str, Any]) -> Result:
    (_, part), (order_tensor, other) = inputs
    order = tf.get_static_value(order_tensor) if other is None else None
    if not isinstance(part, SlicedTensor) or order is None:
        return None
    axis, is_of_rows = [int(place) for place in order].index(part.axis), isinstance(part, SlicedRows)
    if is_of_rows and order[0]:
        return None
    return _arranged(part, compute(part.slice, order_tensor), axis, lambda full: compute(full, order_tensor))


def _expanded(compute: Compute, inputs: Sequence[Input], _: Mapping[str, Any]) -> Result:
    (_, part), (place_tensor, other) = inputs
    place = tf.get_static_value(place_tensor) if other is None else None
    if not isinstance(part, SlicedTensor) or place is None:
        return None
    at = int(place) % (part.slice.shape.rank + 1)
    if at == 0 and isinstance(part, SlicedRows):
        return None
    axis = part.axis + (at <= part.axis)
    return _arranged(part, compute(part.slice, place_tensor), axis, lambda full: compute(full, place_tensor))


def _squeezed(compute: Compute, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    ((tensor, part),) = inputs
    given = value_of(attributes["squeeze_dims"])
    if not isinstance(part, SlicedTensor) or (not given and isinstance(part, SlicedRows)):
        return None
    rank = part.slice.shape.rank
    gone = {axis % rank for axis in given} or {axis for axis in range(rank) if tensor.shape[axis] == 1}
    # Of a slice other axes may be of size 1 than of the full tensor.
    if 0 in gone and isinstance(part, SlicedRows):
        return None
    axis, own = part.axis - sum(each < part.axis for each in gone), tf.squeeze(part.slice, sorted(gone))
    return _arranged(part, own, axis, lambda full: tf.squeeze(full, sorted(gone)))


def _arranged(part: SlicedTensor, own: tf.Tensor, axis: int, of_full: Any) -> Result:
    if isinstance(part, SlicedRows):
        return [rows_like(part, own, axis)]
    assert isinstance(part, SlicedWeight)
    return [weight_like(part, own, axis, lambda: of_full(part.full()))]


def _reshape(_compute: Compute, inputs: Sequence[Input], _: Mapping[str, Any]) -> Result:
    (tensor, part), (sizes, _of_sizes) = inputs
    if not isinstance(part, SlicedTensor):
        return None
    before, after = tensor.shape, _known_sizes(sizes)
    if isinstance(part, SlicedRows):
        return _reshaped_rows(part, before, after, sizes)
    if after.rank is None or not before.is_fully_defined():
        return None
    shape = _without_gap(after, before)
    found = None if shape is None else _place(before.as_list(), shape, part.axis, part.bounds)
    if shape is None or found is None or not isinstance(part, SlicedWeight):
        return None
    axis, bounds = found
    own = tf.reshape(part.slice, [*shape[:axis], -1, *shape[axis + 1 :]])
    return [weight_like(part, own, axis, lambda: tf.reshape(part.full(), shape), bounds=bounds)]


def _known_sizes(sizes: tf.Tensor) -> tf.TensorShape:
    """The sizes that are known of those that a tensor has; also of `tf.tensordot`, which multiplies some of a shape."""
    found = tensor_util.constant_value_as_shape(sizes)
    if found.rank is None or sizes.op.type != "Pack":
        return found
    return tf.TensorShape(
        [_product_of_sizes(each) if size is None else size for size, each in zip(found, sizes.op.inputs, strict=True)]
    )


def _product_of_sizes(size: tf.Tensor) -> int | None:
    """The product of some sizes of a shape that are known; None for anything else."""
    taken = size.op.inputs[0].op if size.op.type == "Prod" else size.op
    places = tf.get_static_value(taken.inputs[1]) if taken.type == "GatherV2" else None
    if places is None or taken is size.op:
        return None
    shape = tensor_util.constant_value_as_shape(taken.inputs[0])
    chosen = [shape[int(place)] for place in places.reshape(-1)]
    return None if None in chosen else math.prod(chosen)


def _reshaped_rows(part: SlicedRows, before: tf.TensorShape, after: tf.TensorShape, sizes: tf.Tensor) -> Result:
    """Rows in another arrangement, also of rows and the places in them together."""
    if not after.rank or not before[part.axis :].is_fully_defined():
        return None
    known = [0 if size is None else size for size in after]
    found = _place([1, *before[part.axis :]], [1, *known[1:]], 1, part.bounds)
    if found is None or found[0] == 0:
        return None
    axis, bounds = found
    if any(after[place] is None and _is_of_rows(sizes, place, after, part) for place in range(1, axis)):
        return None
    has_number_of_rows = any(shape[0] is not None for shape in (before, after, part.origin.shape))
    if has_number_of_rows and before[: part.axis].as_list() != after[:axis].as_list():
        return None
    start, stop = bounds[part.group.share : part.group.share + 2]
    inner, outer = tf.shape(part.slice, tf.int64)[1 : part.axis], _sizes_within(part, sizes)[1:axis]
    arranged = tf.reshape(part.slice, tf.concat([[-1], outer, [stop - start], known[axis + 1 :]], 0))
    arranged = tf.ensure_shape(arranged, [None, *after[1:axis], stop - start, *known[axis + 1 :]])
    counts = part.counts * tf.reduce_prod(inner) // tf.maximum(tf.reduce_prod(outer), 1)
    return [rows_like(part, arranged, axis, bounds=bounds, counts=counts)]


def _is_of_rows(sizes: tf.Tensor, place: int, after: tf.TensorShape, part: SlicedRows) -> bool:
    """Returns whether a later size of a reshape is the number of rows: time steps may come before samples."""
    given = sizes.op.inputs[place] if sizes.op.type == "Pack" else sizes[place]
    if tf.get_static_value(given) == -1:
        return after[0] not in (None, part.origin.shape[0])
    return depends_on_batch(given)


def _sizes_within(part: SlicedRows, sizes: tf.Tensor) -> tf.Tensor:
    """The sizes of a reshape of this worker's rows, int64; what is to follow from the others as it follows."""
    own = tf.cast(sizes, tf.int64)
    width = part.bounds[part.group.share + 1] - part.bounds[part.group.share]
    of_row = tf.reduce_prod(tf.shape(part.slice, tf.int64)[1:]) // width * part.bounds[-1]
    others = tf.maximum(tf.reduce_prod(tf.abs(own)), 1)
    return tf.where(own < 0, part.counts[part.group.share] * of_row // others, own)


def _place(before: list[int], after: list[int], axis: int, bounds: Bounds) -> tuple[int, Bounds] | None:
    """The axis along which another arrangement of a tensor is cut, and where; None where a slice of it is no slice."""
    inner = math.prod(before[axis + 1 :])
    for place, size in enumerate(after):
        behind = math.prod(after[place + 1 :])
        if size * behind == before[axis] * inner and all(bound * inner % behind == 0 for bound in bounds):
            return place, tuple(bound * inner // behind for bound in bounds)
    return None


def _without_gap(shape: tf.TensorShape, before: tf.TensorShape) -> list[int] | None:
    """A shape whose one size that is not known follows from the others."""
    sizes = shape.as_list()
    known = math.prod(size for size in sizes if size is not None)
    if sizes.count(None) > 1 or not known:
        return None
    return [before.num_elements() // known if size is None else size for size in sizes]


def _split(compute: Compute, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    """Parts along another axis than that of the rows and that which is cut."""
    place = 0 if len(inputs) == 2 else 2
    (_, part), (axis_tensor, _other) = inputs[1 if len(inputs) == 2 else 0], inputs[place]
    if not isinstance(part, SlicedRows) or not _is_free(part, tf.get_static_value(axis_tensor)):
        return None
    given = [part.slice if other is part else tensor for tensor, other in inputs]
    return [rows_like(part, each) for each in compute(*given)]


def _is_free(part: SlicedRows, axis: Any) -> bool:
    """Returns whether an axis is another one than that of the rows and that which is cut."""
    return axis is not None and int(axis) % part.slice.shape.rank not in (0, part.axis)


def _concatenated(_: Compute, inputs: Sequence[Input], _attributes: Mapping[str, Any]) -> Result:
    *joined, (axis_tensor, _other) = inputs
    axis = tf.get_static_value(axis_tensor)
    first = next((part for _, part in joined if isinstance(part, SlicedRows)), None)
    if first is None or not _is_free(first, axis):
        return None
    given = _alike(joined, first)
    return None if given is None else [rows_like(first, tf.concat(given, int(axis)))]


def _packed(_: Compute, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    first = next((part for _, part in inputs if isinstance(part, SlicedRows)), None)
    if first is None:
        return None
    at = value_of(attributes["axis"]) % (first.slice.shape.rank + 1)
    given = _alike(inputs, first) if at else None
    return None if given is None else [rows_like(first, tf.stack(given, at), first.axis + (at <= first.axis))]


def _alike(inputs: Sequence[Input], first: SlicedRows) -> list[tf.Tensor] | None:
    """Slices of tensors that have the rows of `first`, cut as it is; None where one of them cannot be."""
    found = []
    for tensor, part in inputs:
        if isinstance(part, SlicedRows) and part.axis == first.axis and part.is_cut_like(first):
            found.append(lambda part=part: part.slice)
        elif part is None and tensor.shape.rank == first.slice.shape.rank and tensor.shape[0] is None:
            if tensor.shape[first.axis] != first.bounds[-1]:
                return None
            found.append(lambda tensor=tensor: slices_of_all(tensor, first.axis, first.bounds, first.group)[0])
        else:
            return None
    return [each() for each in found]


def _unpacked(compute: Compute, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    ((_, part),) = inputs
    axis = value_of(attributes["axis"])
    if not isinstance(part, SlicedRows) or not _is_free(part, axis):
        return None
    behind = axis % part.slice.shape.rank < part.axis
    return [rows_like(part, each, part.axis - behind) for each in compute(part.slice)]


_MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")


def _strided(compute: Compute, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    """Some places of other axes than that of the rows and that which is cut, of which it takes all; the same places of
    the rows of all workers."""
    (_, part), *spec = inputs
    strides = tf.get_static_value(spec[2][0])
    masks = {name: value_of(attributes[f"{name}_mask"]) for name in _MASKS}
    if not isinstance(part, SlicedRows) or strides is None:
        return None
    if any(other is not None or not is_of_all(tensor) for tensor, other in spec):
        return None
    axis = _axis_behind(part, [int(stride) for stride in strides], masks)
    return None if axis is None else [rows_like(part, compute(part.slice, *(tensor for tensor, _ in spec)), axis)]


def _axis_behind(part: SlicedRows, strides: list[int], masks: Mapping[str, int]) -> int | None:
    """The axis of the result along which it is cut; None where not all of it or of the rows is taken."""
    rank, place, behind = part.slice.shape.rank, 0, 0
    of_axes = sum(not (masks["new_axis"] | masks["ellipsis"]) >> entry & 1 for entry in range(len(strides)))
    for entry, stride in enumerate(strides):
        if masks["ellipsis"] >> entry & 1:
            skipped = rank - of_axes
            behind += sum(each < part.axis for each in range(place, place + skipped))
            place += skipped
        elif masks["new_axis"] >> entry & 1:
            if place == 0:
                return None
            behind += place <= part.axis
        else:
            is_all = stride == 1 and masks["begin"] >> entry & masks["end"] >> entry & 1
            if place in (0, part.axis) and (not is_all or masks["shrink_axis"] >> entry & 1):
                return None
            behind += place < part.axis and not masks["shrink_axis"] >> entry & 1
            place += 1
    return behind + sum(each < part.axis for each in range(place, rank))


def _sliced(_: Compute, inputs: Sequence[Input], _attributes: Mapping[str, Any]) -> Result:
    (tensor, part), (begins, _other), (sizes, _others) = inputs
    first, counts = tf.get_static_value(begins), tf.get_static_value(sizes)
    if not isinstance(part, SlicedRows) or first is None or counts is None or first[0] or first[part.axis]:
        return None
    if counts[0] != -1 or counts[part.axis] not in (-1, tensor.shape[part.axis]):
        return None
    taken = [-1 if axis == part.axis else int(count) for axis, count in enumerate(counts)]
    return [rows_like(part, tf.slice(part.slice, begins, taken))]


def _padded(compute: Compute, inputs: Sequence[Input], _: Mapping[str, Any]) -> Result:
    (_, part), (paddings, other), *value = inputs
    added = tf.get_static_value(paddings) if other is None else None
    if not isinstance(part, SlicedRows) or added is None or added[0].any() or added[part.axis].any():
        return None
    if any(each is not None or not is_of_all(tensor) for tensor, each in value):
        return None
    return [rows_like(part, compute(part.slice, paddings, *(tensor for tensor, _ in value)))]


def _along_axis(compute: Compute, inputs: Sequence[Input], _: Mapping[str, Any]) -> Result:
    """What works along one axis alone, which an input names."""
    (_, part), (axis_tensor, other) = inputs
    axes = tf.get_static_value(axis_tensor) if other is None else None
    if not isinstance(part, SlicedRows) or axes is None or not all(_is_free(part, axis) for axis in axes.reshape(-1)):
        return None
    return [rows_like(part, compute(part.slice, axis_tensor))]


def _gathered(compute: Compute, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    """Places along an axis that each worker has in full, the same for all rows."""
    (_, part), (places, of_places), (axis_tensor, _other) = inputs
    axis, rank = tf.get_static_value(axis_tensor), places.shape.rank
    if not isinstance(part, SlicedRows) or not _is_free(part, axis) or of_places is not None or rank is None:
        return None
    if value_of(attributes["batch_dims"]) or not is_of_all(places):
        return None
    behind = rank - 1 if int(axis) % part.slice.shape.rank < part.axis else 0
    return [rows_like(part, compute(part.slice, places, axis_tensor), part.axis + behind)]


RULES: Mapping[str, Rule] = {
    "ConcatV2": _concatenated,
    "Cumsum": _along_axis,
    "ExpandDims": _expanded,
    "GatherV2": _gathered,
    "MirrorPad": _padded,
    "Pack": _packed,
    "Pad": _padded,
    "PadV2": _padded,
    "Reshape": _reshape,
    "ReverseV2": _along_axis,
    "Slice": _sliced,
    "Split": _split,
    "SplitV": _split,
    "Squeeze": _squeezed,
    "StridedSlice": _strided,
    "Transpose": _transpose,
    "Unpack": _unpacked,
}
