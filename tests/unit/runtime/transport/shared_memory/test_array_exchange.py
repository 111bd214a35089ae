"""Tests of sums and copies of arrays between workers of one host."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.runtime.transport.shared_memory.linked_threads import meshes, on_each
from tfdist.errors import UsageError, WorkerFailedError
from tfdist.net.host_links import PAIR_REGION_BYTES, REGION_BYTES
from tfdist.runtime.transport.shared_memory.array_exchange import (
    SHARED_FROM_BYTES,
    Reduction,
    copy_arrays,
    deal_array,
    gather_arrays,
    reduce_arrays,
)
from tfdist.runtime.transport.shared_memory.host_mesh import KINDS, SLOTS, HostMesh

FRAME_BYTES = (REGION_BYTES - 4096) // (KINDS * SLOTS)
FRAME = FRAME_BYTES // 4
SIZES = [[1], [0], [5, 0, 7], [FRAME], [FRAME + 1], [SHARED_FROM_BYTES // 4], [3 * FRAME + 17, 1, FRAME - 3, 11]]


def numbers(sizes: list[int], seed: int, dtype: type = np.float32) -> list[NDArray]:
    generator = np.random.default_rng(seed)
    return [(1000 * generator.normal(size=size)).astype(dtype) for size in sizes]


def summed(mesh: HostMesh, arrays: list[NDArray]) -> list[NDArray]:
    totals = [np.empty_like(array) for array in arrays]
    reduce_arrays(mesh, arrays, totals)
    return totals


@pytest.mark.parametrize(
    ("workers", "region_bytes"),
    [(2, REGION_BYTES), (2, PAIR_REGION_BYTES), (3, REGION_BYTES), (4, PAIR_REGION_BYTES)],
)
def test_sums_are_those_in_the_order_of_the_workers(workers: int, region_bytes: int) -> None:
    def work(mesh: HostMesh) -> list[list[NDArray]]:
        # One after another: places are used again while another worker may still be at the sum before.
        return [summed(mesh, numbers(sizes, mesh.rank)) for _ in range(3) for sizes in SIZES]

    got = on_each(meshes(workers, region_bytes), work)
    wanted = []
    for sizes in 3 * SIZES:
        given = [numbers(sizes, rank) for rank in range(workers)]
        totals = given[0]
        for other in given[1:]:
            totals = [total + array for total, array in zip(totals, other, strict=True)]
        wanted.append(totals)
    for totals in got:
        for total, want in zip(totals, wanted, strict=True):
            for array, right in zip(total, want, strict=True):
                np.testing.assert_array_equal(array, right)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16, np.int64, np.int32])
@pytest.mark.parametrize("workers", [2, 3])
def test_dtypes(workers: int, dtype: type) -> None:
    sizes = [FRAME_BYTES // np.dtype(dtype).itemsize + 5, 3]
    got = on_each(meshes(workers), lambda mesh: summed(mesh, numbers(sizes, mesh.rank, dtype)))
    wide = np.float32 if np.dtype(dtype).itemsize == 2 else dtype
    for totals in got:
        for i, total in enumerate(totals):
            right = sum(numbers(sizes, rank, dtype)[i].astype(wide) for rank in range(workers))
            assert total.dtype == dtype
            np.testing.assert_array_equal(total, np.asarray(right, wide).astype(dtype))


def test_a_sum_may_take_the_place_of_its_summand() -> None:
    def work(mesh: HostMesh) -> NDArray:
        (array,) = numbers([2 * FRAME + 3], mesh.rank)
        reduce_arrays(mesh, [array], [array])
        return array

    for array in on_each(meshes(3), work):
        (first,), (second,), (third,) = (numbers([2 * FRAME + 3], rank) for rank in range(3))
        np.testing.assert_array_equal(array, first + second + third)


@pytest.mark.parametrize("sizes", [[0, 0], [3, 0, 2 * FRAME + 1], [1, 4, 2, 0]])
def test_arrays_of_any_sizes_are_gathered(sizes: list[int]) -> None:
    def arrays(rank: int) -> list[NDArray]:
        (array,) = numbers([sizes[rank]], rank)
        return [array, np.arange(sizes[-1 - rank], dtype=np.int64) + rank]

    def work(mesh: HostMesh) -> tuple[list[NDArray], NDArray]:
        gathered = gather_arrays(mesh, arrays(mesh.rank))
        return gathered, summed(mesh, [np.ones(2, np.int32)])[0]

    of_all = [np.concatenate(each) for each in zip(*map(arrays, range(len(sizes))), strict=True)]
    for gathered, after in on_each(meshes(len(sizes)), work):
        for array, right in zip(gathered, of_all, strict=True):
            assert array.dtype == right.dtype
            np.testing.assert_array_equal(array, right)
        assert after.tolist() == [len(sizes)] * 2


@pytest.mark.parametrize(("reduction", "function"), [("product", np.prod), ("max", np.max), ("min", np.min)])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32])
def test_other_reductions(reduction: Reduction, function: Callable[..., NDArray], dtype: type) -> None:
    sizes = [SHARED_FROM_BYTES]

    def work(mesh: HostMesh) -> NDArray:
        (array,) = numbers(sizes, mesh.rank, dtype)
        reduce_arrays(mesh, [array], [array], reduction)
        return array

    wide = np.float32 if dtype is ml_dtypes.bfloat16 else dtype
    right = function([numbers(sizes, rank, dtype)[0].astype(wide) for rank in range(3)], axis=0).astype(wide)
    for array in on_each(meshes(3), work):
        np.testing.assert_array_equal(array, right.astype(dtype))


@pytest.mark.parametrize("size", [1, 5, FRAME, 2 * FRAME + 7])
@pytest.mark.parametrize("workers", [2, 3])
def test_each_worker_gets_its_part_of_all_arrays(workers: int, size: int) -> None:
    def work(mesh: HostMesh) -> NDArray:
        (array,) = numbers([workers * size], mesh.rank)
        dealt = np.empty_like(array)
        deal_array(mesh, array, dealt)
        return dealt

    for rank, dealt in enumerate(on_each(meshes(workers), work)):
        for other, part in enumerate(dealt.reshape(workers, size)):
            np.testing.assert_array_equal(part, numbers([workers * size], other)[0][rank * size : (rank + 1) * size])


@pytest.mark.parametrize("root", [0, 1])
@pytest.mark.parametrize("workers", [2, 3])
def test_the_arrays_of_one_worker_are_copied(workers: int, root: int) -> None:
    def work(mesh: HostMesh) -> list[list[NDArray]]:
        found = []
        for sizes in SIZES:
            arrays = numbers(sizes, mesh.rank)
            copies = [np.empty_like(array) for array in arrays]
            copy_arrays(mesh, arrays, copies, root)
            found.append(arrays if mesh.rank == root else copies)
        return found

    for found in on_each(meshes(workers), work):
        for sizes, copies in zip(SIZES, found, strict=True):
            for copy, right in zip(copies, numbers(sizes, root), strict=True):
                np.testing.assert_array_equal(copy, right)


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [
        ([[4], [5]], ["sum float32 [4]", "sum float32 [5]"]),
        # One tells more than the other hears: what is left must not pass for a later word.
        ([[16 * FRAME], [5]], [f"sum float32 [{16 * FRAME}]", "sum float32 [5]"]),
        # The label does not name the last ones.
        ([[1] * 8 + [2, 3], [1] * 8 + [3, 2]], ["[1, 1, 1, 1, 1, 1, 1, 1, ... 13 in 10 arrays]"] * 2),
    ],
)
def test_workers_in_other_sums_are_told_of_both(sizes: list[list[int]], shown: list[str]) -> None:
    def work(mesh: HostMesh) -> list[str]:
        said = []
        for arrays in (numbers(sizes[mesh.rank], 0), numbers(sizes[0], 0)):
            with pytest.raises(UsageError) as error:
                summed(mesh, arrays)
            said.append(str(error.value))
        return said

    for (first, again), (own, other) in zip(on_each(meshes(2), work), [(3, 4), (4, 3)], strict=True):
        assert f"{shown[own - 3]} on worker {own}, and " in first
        assert f"{shown[other - 3]} on worker {other}." in first
        assert again == first


class Ended(Exception):
    """A worker is killed."""


@pytest.mark.parametrize("exchange", ["sum", "gather", "deal", "copy"])
@pytest.mark.parametrize("steps", range(0, 9, 2))
def test_a_worker_that_ends_anywhere_ends_the_waiting_of_all(exchange: str, steps: int) -> None:
    """Before its first word, and after each second one."""

    def work(mesh: HostMesh) -> str:
        (array,) = numbers([3 * FRAME], mesh.rank)
        if mesh.rank == 1:
            end_after(mesh, steps)
        try:
            if exchange == "sum":
                reduce_arrays(mesh, [array], [array])
            elif exchange == "gather":
                gather_arrays(mesh, [array])
            elif exchange == "deal":
                deal_array(mesh, array, np.empty_like(array))
            else:
                copy_arrays(mesh, [array], [array])
            # The next exchange needs all workers again.
            reduce_arrays(mesh, [array], [array])
        except Ended:
            mesh.close()
        except WorkerFailedError as error:
            mesh.close()  # as it ends, too
            return str(error)
        return ""

    first, _, third = on_each(meshes(3), work)
    assert ", and it broke off: worker " in first
    assert ", and it broke off: worker " in third


def end_after(mesh: HostMesh, steps: int) -> None:
    """Kills a worker when it has told the others something so many times."""
    left = iter(range(steps))
    tell = mesh.tell

    def counted() -> None:
        if next(left, None) is None:
            raise Ended
        tell()

    mesh.tell = counted  # type: ignore[method-assign]


def test_the_worker_that_has_ended_is_named() -> None:
    near, far = meshes(2)
    far.close()
    with pytest.raises(WorkerFailedError, match=r"\(sum float32 \[3\]\).*worker 4 has ended"):
        summed(near, numbers([3], 0))
    near.close()
