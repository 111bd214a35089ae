"""Tests of parts of any size that each worker of a host gives each other one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.runtime.transport.shared_memory.linked_threads import meshes, on_each
from tfdist.net.host_links import REGION_BYTES
from tfdist.runtime.transport.shared_memory.array_exchange import reduce_arrays
from tfdist.runtime.transport.shared_memory.host_mesh import KINDS, SLOTS, HostMesh
from tfdist.runtime.transport.shared_memory.uneven_exchange import deal_uneven_array

FRAME = (REGION_BYTES - 4096) // (KINDS * SLOTS) // 4


def given(rank: int, sizes: list[int], dtype: type) -> NDArray:
    return np.random.default_rng(rank).integers(0, 100, sum(sizes)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    "table",
    [
        [[0, 0], [0, 0]],
        [[3, 0], [0, 1]],
        [[1, 2, 3], [0, 0, 0], [7, 0, 5]],
        # Parts of more than a frame, and parts that begin within one.
        [[5, 2 * FRAME + 3, 1], [FRAME - 1, 0, FRAME + 1], [0, 4, 3 * FRAME]],
    ],
)
def test_each_worker_gets_its_parts_of_all_arrays(table: list[list[int]], dtype: type) -> None:
    def work(mesh: HostMesh) -> tuple[NDArray, NDArray, NDArray]:
        sizes = table[mesh.rank]
        dealt, came = deal_uneven_array(mesh, given(mesh.rank, sizes, dtype), np.array(sizes))
        # The places are in order for what comes next.
        after = np.ones(3, np.int32)
        reduce_arrays(mesh, [after], [after])
        return dealt, came, after

    for rank, (dealt, came, after) in enumerate(on_each(meshes(len(table)), work)):
        assert came.tolist() == [sizes[rank] for sizes in table]
        parts = [
            given(other, sizes, dtype)[sum(sizes[:rank]) : sum(sizes[: rank + 1])] for other, sizes in enumerate(table)
        ]
        assert dealt.dtype == dtype
        np.testing.assert_array_equal(dealt, np.concatenate(parts))
        assert after.tolist() == [len(table)] * 3
