from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tfdist.order.epoch_order import EpochOrder
from tfdist.order.per_worker_order import WorkerShareOrder, WorkerShareSteps


@given(
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=5),
    batch=st.integers(1, 70),
    devices=st.integers(1, 3),
    data=st.data(),
)
def test_every_sample_of_every_share_comes_once_and_batches_are_full(
    sizes: list[int], batch: int, devices: int, data: st.DataObject
) -> None:
    workers, total = len(sizes), sum(sizes)
    steps = WorkerShareSteps(tuple(sizes), batch, workers * devices)
    begin = data.draw(st.integers(0, len(steps)))
    of_step = np.zeros(len(steps) - begin, np.int64)
    for worker, size in enumerate(sizes):
        ids = range(worker * devices, (worker + 1) * devices)
        whole = steps.pieces(0, len(steps), ids)
        assert [place for start, stop in whole.tolist() for place in range(start, stop)] == list(range(size))
        pieces = steps.pieces(begin, len(steps), ids)
        assert pieces.tolist() == whole[begin * devices :].tolist()
        lengths = (pieces[:, 1] - pieces[:, 0]).reshape(-1, devices)
        if len(lengths):
            assert (lengths.max(axis=1) - lengths.min(axis=1) <= 1).all()
            assert lengths.max() <= steps.largest_piece(ids)
        of_step += lengths.sum(axis=1)
    expected = [min(batch, total - step * batch) for step in range(begin, len(steps))]
    assert of_step.tolist() == expected


def test_shares_are_dealt_in_proportion() -> None:
    steps = WorkerShareSteps((300, 100), 40, 2)
    pieces = [steps.pieces(0, len(steps), [worker]) for worker in (0, 1)]
    assert [set((found[:, 1] - found[:, 0]).tolist()) for found in pieces] == [{30}, {10}]


def test_no_replica_is_sure_to_have_a_sample_of_each_batch() -> None:
    """However large the shares are: the batches follow their proportion."""
    assert WorkerShareSteps((3000, 1000), 40, 2).every_replica_has_samples is False


def test_the_bound_of_a_piece_is_near_to_the_largest() -> None:
    """Memory is laid out for it: 20 come of each share."""
    assert 20 <= WorkerShareSteps((1000, 1000), 40, 2).largest_piece([0]) <= 23


def test_no_two_samples_of_the_job_have_the_same_seed() -> None:
    orders = [WorkerShareOrder(EpochOrder(50, 7, True), before) for before in (0, 50)]
    seeds = {tuple(seed) for order in orders for seed in order.sample_seeds(0, np.arange(50)).tolist()}
    assert len(seeds) == 100
    assert orders[1].at(0, np.arange(50)).tolist() == EpochOrder(50, 7, True).of(0).tolist()
    assert (orders[1].seed, orders[1].shuffle) == (7, True)
