"""The count of a dataset's epochs, which several of its parts keep."""

from __future__ import annotations

from tfdist.runtime.batches.dataset_description import EpochCounter


def test_each_part_counts_for_itself_and_all_are_set_together() -> None:
    epochs = EpochCounter(3)
    assert epochs.next == 3
    one, other = epochs.part(), epochs.part()
    assert (one(), one(), other()) == (3, 4, 3)
    assert epochs.next == 5
    epochs.next += 2
    assert (one(), other(), one()) == (7, 7, 8)
    assert epochs.part()() == 7
