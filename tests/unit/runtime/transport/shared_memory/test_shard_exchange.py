"""Reduce-scatter and all-gather of arrays over the workers of a host, one frame after another."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.runtime.transport.shared_memory.linked_threads import meshes, on_each
from tests.unit.runtime.transport.shared_memory.test_array_exchange import FRAME, numbers
from tfdist.errors import UsageError
from tfdist.net.host_links import PAIR_REGION_BYTES, REGION_BYTES
from tfdist.runtime.transport.shared_memory.array_exchange import reduce_arrays
from tfdist.runtime.transport.shared_memory.host_mesh import HostMesh
from tfdist.runtime.transport.shared_memory.shard_exchange import all_gather, reduce_scatter

SIZES = [[1], [0], [5, 0, 7], [FRAME + 1], [3 * FRAME + 17, 1, FRAME - 3, 11]]


def even(size: int, workers: int) -> tuple[int, ...]:
    return tuple(size * worker // workers for worker in range(workers + 1))


def all_with(size: int, owner: int, workers: int) -> tuple[int, ...]:
    return tuple(size if worker > owner else 0 for worker in range(workers + 1))


def bounds_of(sizes: list[int], workers: int) -> list[tuple[int, ...]]:
    """Some even, some of one owner."""
    return [
        all_with(size, number % workers, workers) if number % 3 == 1 else even(size, workers)
        for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("workers", "region_bytes"), [(2, REGION_BYTES), (3, REGION_BYTES), (4, PAIR_REGION_BYTES)])
def test_shards_of_sums_have_the_bits_of_the_sums(workers: int, region_bytes: int, dtype: type) -> None:
    def work(mesh: HostMesh) -> None:
        for sizes in 2 * SIZES:
            arrays, bounds = numbers(sizes, mesh.rank, dtype), bounds_of(sizes, mesh.count)
            wholes = [np.empty_like(array) for array in arrays]
            reduce_arrays(mesh, arrays, wholes)
            spans = [slice(bound[mesh.rank], bound[mesh.rank + 1]) for bound in bounds]
            parts = [np.empty_like(whole[span]) for whole, span in zip(wholes, spans, strict=True)]
            reduce_scatter(mesh, arrays, bounds, parts)
            for part, whole, span in zip(parts, wholes, spans, strict=True):
                np.testing.assert_array_equal(part, whole[span])

    on_each(meshes(workers, region_bytes), work)


@pytest.mark.parametrize(("workers", "region_bytes"), [(2, REGION_BYTES), (3, REGION_BYTES), (4, PAIR_REGION_BYTES)])
def test_shards_are_gathered_in_the_order_of_the_workers(workers: int, region_bytes: int) -> None:
    def work(mesh: HostMesh) -> None:
        for sizes in 2 * SIZES:
            right, bounds = numbers(sizes, 7), bounds_of(sizes, mesh.count)
            parts = [
                array[bound[mesh.rank] : bound[mesh.rank + 1]] for array, bound in zip(right, bounds, strict=True)
            ]
            joined: list[NDArray] = [np.full_like(array, np.nan) for array in right]
            all_gather(mesh, parts, bounds, joined)
            for got, wanted in zip(joined, right, strict=True):
                np.testing.assert_array_equal(got, wanted)

    on_each(meshes(workers, region_bytes), work)


def test_a_worker_in_another_exchange_is_named() -> None:
    def work(mesh: HostMesh) -> None:
        (array,) = numbers([4], mesh.rank)
        if mesh.rank:
            all_gather(mesh, [array[:2]], [(0, 2, 4)], [array])
        else:
            reduce_scatter(mesh, [array], [(0, 2, 4)], [array[:2]])

    with pytest.raises(UsageError, match=r"(sum|join) of parts float32"):
        on_each(meshes(2), work)
