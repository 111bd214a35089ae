from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdist.order.epoch_order import EpochOrder, EpochSteps
from tfdist.order.sequential_order import LaneOrder, Lanes

counts = st.lists(st.integers(0, 50), min_size=1, max_size=8).filter(any)


def epoch_of(order: LaneOrder, epoch: int) -> list[int]:
    return order.at(epoch, np.arange(order.num_samples)).tolist()


@given(
    files=counts,
    batch=st.integers(1, 70),
    most=st.integers(1, 5),
    buffer=st.integers(1, 40),
    shuffle=st.booleans(),
    epoch=st.integers(0, 3),
    data=st.data(),
)
def test_every_sample_comes_once_and_any_place_is_found_by_itself(
    files: list[int], batch: int, most: int, buffer: int, shuffle: bool, epoch: int, data: st.DataObject
) -> None:
    order = LaneOrder(Lanes.of(tuple(files), most, buffer), batch, 7, shuffle)
    whole = epoch_of(order, epoch)
    assert sorted(whole) == list(range(sum(files)))
    some = data.draw(st.lists(st.integers(0, sum(files) - 1), min_size=1, max_size=9))
    assert order.at(epoch, np.array(some)).tolist() == [whole[place] for place in some]


@given(files=counts, batch=st.integers(1, 70), most=st.integers(1, 5), buffer=st.integers(1, 40))
def test_a_file_is_read_forward_a_window_at_a_time(files: list[int], batch: int, most: int, buffer: int) -> None:
    """What is asked for of a file is never more than a window behind what was: a reader need not hold more."""
    lanes = Lanes.of(tuple(files), most, buffer)
    samples = np.array(epoch_of(LaneOrder(lanes, batch, 7, True), 0))
    file_of = np.repeat(np.arange(len(files)), files)
    open_files = 0
    for file in range(len(files)):
        records = samples[file_of[samples] == file] - sum(files[:file])
        windows = records // lanes.window
        assert (np.diff(windows) >= 0).all()
        open_files += bool(len(records))
    assert lanes.number == min(most, open_files)


def test_the_order_is_frozen() -> None:
    """A resumed run reads on where it was, with another version, too."""
    order = LaneOrder(Lanes((4, 3, 5), 2, 3), 5, 7, True)
    assert epoch_of(order, 2) == [0, 1, 2, 3, 6, 8, 9, 7, 10, 5, 11, 4]


def test_without_shuffle_and_with_one_lane_the_order_is_that_of_the_files() -> None:
    assert epoch_of(LaneOrder(Lanes.of((3, 0, 4), 1), 2), 0) == list(range(7))


def test_a_batch_takes_of_every_lane_and_holds_them_one_after_another() -> None:
    order = LaneOrder(Lanes.of((4, 4), 2), 4)
    assert epoch_of(order, 0) == [0, 1, 4, 5, 2, 3, 6, 7]


def test_epochs_and_seeds_differ() -> None:
    lanes = Lanes.of((30, 30, 30), 2, 16)
    orders = [epoch_of(LaneOrder(lanes, 8, seed, True), epoch) for seed in (1, 2) for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4
    assert epoch_of(LaneOrder(lanes, 8, 1, True), 0) == orders[0]


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("files", [(40,) * 8, (3, 90, 14, 60)])
def test_a_worker_reads_its_lanes_and_no_others(files: tuple[int, ...], workers: int) -> None:
    batch, total = 16, sum(files)
    order = LaneOrder(Lanes.of(files), batch, 3, False)
    file_of = np.repeat(np.arange(len(files)), files)
    steps = EpochSteps(total, batch, workers)
    for worker in range(workers):
        pieces = steps.pieces(0, len(steps), [worker])
        read = order.at(0, np.concatenate([np.arange(*piece) for piece in pieces]))
        # Not shuffled, each file is a lane.
        assert order.lanes_of(0, workers, worker).tolist() == np.unique(file_of[read]).tolist()


def test_of_a_long_epoch_the_last_step_is_looked_at_too() -> None:
    """Its batch is smaller, and worker 0's piece of it is of a file that it reads in no other of 169 steps."""
    order = LaneOrder(Lanes.of((170, 170, 333)), 4)
    assert order.lanes_of(0, 2, 0).tolist() == [0, 1, 2]


def test_equal_files_are_dealt_without_being_read_twice() -> None:
    order = LaneOrder(Lanes.of((40,) * 8), 16)
    assert [order.lanes_of(0, 4, worker).tolist() for worker in range(4)] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_windows_of_different_files_are_permuted_differently() -> None:
    order = LaneOrder(Lanes((20, 20), 1, 20), 40, 7, True)
    first, second = (sorted(range(20), key=lambda n, f=f: epoch_of(order, 0).index(20 * f + n)) for f in (0, 1))
    assert first != second


def test_samples_have_seeds_of_their_own() -> None:
    order = LaneOrder(Lanes.of((50, 50)), 8, 7, True)
    seeds = {tuple(seed) for epoch in (0, 1) for seed in order.sample_seeds(epoch, np.arange(100)).tolist()}
    assert len(seeds) == 200


def test_a_sample_has_the_seed_that_it_has_when_it_is_read_in_any_order() -> None:
    samples = np.array([0, 7, 99])
    in_sequence = LaneOrder(Lanes.of((50, 50)), 8, 7, True).sample_seeds(2**40, samples)
    np.testing.assert_array_equal(in_sequence, EpochOrder(100, 7, True).sample_seeds(2**40, samples))
