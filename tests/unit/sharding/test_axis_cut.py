"""Slices and blocks of tensors: all elements are in one of them, and a file's bytes are each written once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tfdist.sharding.axis_cut import AxisCut, BlockCut, BlockWriting, further_axis
from tfdist.sharding.mesh import Mesh

SHAPE = (5, 4, 3)
SLICES = [AxisCut(SHAPE, axis, shares) for axis in range(3) for shares in (1, 2, 3, 7)]
BLOCKS = [
    BlockCut(SHAPE, axes, parts)
    for axes in itertools.permutations(range(3), 2)
    for parts in ((1, 2), (2, 2), (2, 3), (3, 7))
]


@pytest.mark.parametrize("cut", SLICES, ids=str)
def test_slices_are_all_of_it(cut: AxisCut) -> None:
    full = np.arange(60).reshape(cut.shape)
    slices = [full[cut.index(share)] for share in range(cut.shares)]
    assert [found.shape for found in slices] == [cut.slice_shape(share) for share in range(cut.shares)]
    assert np.array_equal(np.concatenate(slices, cut.axis), full)
    sizes = [found.shape[cut.axis] for found in slices]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("cut", BLOCKS, ids=str)
def test_blocks_are_all_of_it(cut: BlockCut) -> None:
    seen = np.zeros(cut.shape, int)
    for share in range(cut.shares):
        outer, inner = cut.places(share)
        assert share == outer * cut.parts[1] + inner
        index = cut.index(share)
        assert seen[index].shape == cut.slice_shape(share)
        for axis, place in zip(cut.axes, (outer, inner), strict=True):
            assert (index[axis].start, index[axis].stop) == cut.bounds_along(axis)[place : place + 2]
        seen[index] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize("cut", [*SLICES, *BLOCKS], ids=str)
def test_blocks_are_ranges_of_slabs(cut: BlockCut) -> None:
    full = np.arange(60).reshape(cut.shape)
    assert [full[slab].shape for slab in cut.slabs] == [cut.slab_shape(slab) for slab in cut.slabs]
    flat = np.concatenate([full[slab].transpose(cut.to_front).reshape(-1) for slab in cut.slabs])
    for share in range(cut.shares):
        shape = [cut.slice_shape(share)[place] for place in cut.to_front]
        own = flat[slice(*cut.flat.span(share))].reshape(shape)
        assert np.array_equal(own.transpose(cut.from_front), full[cut.index(share)])


MESH = Mesh.of(data=2, shard=3)
WRITINGS = {
    "slices": (AxisCut(SHAPE, 1, 3), MESH.shard_group(["shard"], 0), 6),
    "outer": (AxisCut(SHAPE, 1, 2), MESH.shard_group(["data"], 0), 6),
    "both": (BlockCut(SHAPE, (0, 2), (2, 3)), MESH.shard_group(["data", "shard"], 0), 6),
    "crossed": (BlockCut(SHAPE, (2, 1), (2, 3)), MESH.shard_group(["data", "shard"], 0), 6),
    **{str(cut): (cut, Mesh.of(shard=cut.shares).shard_group(["shard"], 0), cut.shares) for cut in SLICES},
}


@pytest.mark.parametrize("name", WRITINGS)
def test_a_file_is_what_the_workers_write(name: str) -> None:
    cut, group, workers = WRITINGS[name]
    full = np.arange(60, dtype=np.int16).reshape(cut.shape)
    writing = BlockWriting(cut, group.first, workers)
    written = bytearray(b"head") + bytearray(full.nbytes)
    taken = [0] * workers
    rows = [(value, row) for value in writing.values(4, full.itemsize) for row in range(value.repeats)]
    for value, row in rows:
        for worker, (begin, end) in enumerate(itertools.pairwise(value.bounds)):
            own = full[cut.index(group.first.index(worker))].tobytes() if worker in group.first else b""
            place = value.begin + row * value.bounds[-1]
            written[place + begin : place + end] = own[taken[worker] : taken[worker] + end - begin]
            taken[worker] += end - begin
    assert bytes(written) == b"head" + full.tobytes()
    assert taken == [full.itemsize * writing.size(worker) for worker in range(workers)]


def test_rows_that_are_cut_alike_are_one_value() -> None:
    table = BlockCut((256_000, 2048), (1, 0), (2, 4))
    assert len(BlockWriting(table, tuple(range(8)), 8).values(0, 4)) == 4
    assert len(BlockWriting(AxisCut((4096, 11008), 1, 4), tuple(range(4)), 4).values(0, 4)) == 1


def test_the_further_axis_is_the_longest_with_an_element_for_each_part() -> None:
    assert further_axis((4, 9, 6), [1], 2) == 2
    assert further_axis((4, 9, 6), [1, 2], 4) == 0
    assert further_axis((3, 9), [1], 4) is None
    assert further_axis((9,), [0], 2) is None
