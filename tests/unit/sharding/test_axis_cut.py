"""Slices along an axis: all elements are in one of them, and a file's bytes are each written once."""

from __future__ import annotations

import numpy as np
import pytest

from tfdist.sharding.axis_cut import AxisCut, AxisWriting

CUTS = [AxisCut((5, 4, 3), axis, shares) for axis in range(3) for shares in (1, 2, 3, 7)]


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_slices_are_all_of_it(cut: AxisCut) -> None:
    full = np.arange(60).reshape(cut.shape)
    slices = [full[cut.index(share)] for share in range(cut.shares)]
    assert [found.shape for found in slices] == [cut.slice_shape(share) for share in range(cut.shares)]
    assert np.array_equal(np.concatenate(slices, cut.axis), full)
    sizes = [found.shape[cut.axis] for found in slices]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_slices_are_ranges_where_their_axis_is_first(cut: AxisCut) -> None:
    full = np.arange(60).reshape(cut.shape)
    front = full.transpose(cut.to_front)
    assert front.shape == cut.of_front.shape and np.array_equal(front.transpose(cut.from_front), full)
    for share in range(cut.shares):
        begin, end = cut.of_front.span(share)
        own = front.reshape(-1)[begin:end].reshape(cut.of_front.shard_shape(share))
        assert np.array_equal(own.transpose(cut.from_front), full[cut.index(share)])


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_a_file_is_what_the_workers_write(cut: AxisCut, groups: int) -> None:
    full = np.arange(60, dtype=np.int16).reshape(cut.shape)
    writing = AxisWriting(cut, groups * cut.shares)
    written = bytearray(b"head") + bytearray(full.nbytes)
    taken = [0] * writing.workers
    for value in writing.values(4, full.itemsize):
        for worker, (begin, end) in enumerate(zip(value.bounds, value.bounds[1:], strict=False)):
            own = full[cut.index(worker)].tobytes() if worker < cut.shares else b""
            written[value.begin + begin : value.begin + end] = own[taken[worker] : taken[worker] + end - begin]
            taken[worker] += end - begin
    assert bytes(written) == b"head" + full.tobytes()
    assert taken == [full.itemsize * writing.size(worker) for worker in range(writing.workers)]
