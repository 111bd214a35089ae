"""Plans of what is read in sequence, and of shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plan.sources import plan, source
from tfdist.errors import UsageError
from tfdist.order.epoch_order import EpochSteps
from tfdist.order.sequential_order import LaneOrder, Lanes
from tfdist.plan.plan import DataPlan
from tfdist.plan.plan_inputs import ClusterSize, SequentialRead, SourceSizes
from tfdist.plan.plan_json import to_json
from tfdist.plan.plan_table import render
from tfdist.plan.plan_warnings import warnings_of
from tfdist.plan.worker_reads import worker_reads


def packed(*counts: int, most: int = 64, buffer: int = 1 << 14, **more: Any) -> SourceSizes:
    return source(*counts, sequence=SequentialRead("GZIP-compressed", Lanes.of(counts, most, buffer)), **more)


def warned(made: DataPlan) -> dict[str, str]:
    return {warning.name: warning.text for warning in warnings_of(made)}


@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(any),
    batch_size=st.integers(1, 90),
    workers=st.integers(1, 5),
)
def test_a_worker_reads_whole_files_and_trains_on_its_part(counts: list[int], batch_size: int, workers: int) -> None:
    sizes = packed(*counts)
    order, steps = LaneOrder(Lanes.of(tuple(counts)), batch_size), EpochSteps(sum(counts), batch_size, workers)
    file_of = np.repeat(np.arange(len(counts)), counts)
    found = worker_reads(sizes, batch_size, workers, shuffle=False)
    for reading in found:
        pieces = steps.pieces(0, len(steps), [reading.worker])
        samples = order.at(0, np.concatenate([np.arange(*piece) for piece in pieces]))
        assert reading.samples == len(samples)
        seen = np.isin(np.arange(len(counts)), file_of[samples])
        if len(steps) <= 64:
            # A lane between two others counts as read, though of a small one there may be nothing in any step.
            assert (reading.file_bytes[seen] == 100 * np.array(counts)[seen]).all()
    assert sum(reading.samples for reading in found) == sum(counts)


def test_one_file_is_read_by_every_worker() -> None:
    made = plan(packed(800), 80, ClusterSize(8, 8))
    assert [reading.bytes for reading in made.train.worker_reads] == [80_000] * 8
    assert [reading.samples for reading in made.train.worker_reads] == [100] * 8
    assert "Together they read 640 kB an epoch for 80.0 kB of data" in warned(made)["few-files"]


def test_the_samples_of_each_file_are_those_of_the_workers_part_of_a_batch() -> None:
    found = worker_reads(packed(100, 100, 100), batch_size=2, workers=3, shuffle=False)
    assert [reading.samples for reading in found] == [150, 150, 0]
    assert [reading.file_samples.tolist() for reading in found] == [[100, 50, 0], [0, 50, 100], [0, 0, 0]]


def test_as_many_files_as_workers_are_each_read_once() -> None:
    made = plan(packed(*[100] * 8), 80, ClusterSize(8, 8), shuffle=True)
    assert [reading.bytes for reading in made.train.worker_reads] == [10_000] * 8
    assert warned(made) == {}


def test_a_buffer_that_is_smaller_than_a_file() -> None:
    text = warned(plan(packed(500, 90, buffer=200), shuffle=True))["small-buffer"]
    assert "room for 100 samples of each of the 2 files" in text and "Set shuffle_buffer to 1,000" in text
    assert warned(plan(packed(500, 90, buffer=1000), shuffle=True)) == {}
    assert warned(plan(packed(500, 90, buffer=200))) == {}, "nothing is mixed"


def test_shares_are_planned_as_if_all_had_as_much() -> None:
    made = plan(source(30, 25, shares=True, local_disk="ext4"), 10, ClusterSize(2, 2, hosts=2))
    assert (made.train.samples, made.train.steps) == (110, 11)
    assert [reading.samples for reading in made.train.worker_reads] == [55, 55]
    assert list(warned(made)) == ["own-shares"]
    assert warned(plan(source(30, shares=True))) == {}, "one worker has all of it"


@pytest.mark.parametrize(
    ("shuffle", "text"), [(True, "windows of 200, in a new"), (False, "no, always the same order")]
)
def test_the_table_says_what_reading_in_sequence_costs(shuffle: bool, text: str) -> None:
    shown = " ".join(render(plan(packed(500, 90, 10, most=2, buffer=400), shuffle=shuffle)).split())
    assert text in shown
    assert "in sequence GZIP-compressed: 2 of 3 files at the same time, from the beginning" in shown
    assert "up to 500 samples of each of 2 files are skipped" in shown


def test_for_machines() -> None:
    data = to_json(plan(packed(500, 90, most=1, buffer=400, shares=True)))["data"]["train"]
    assert data["sharding"] == "none"
    assert data["sequence"] == {
        "why": "GZIP-compressed",
        "files_at_once": 1,
        "shuffle_window": 400,
        "read_over_at_resume": 500,
    }
    assert to_json(plan(source(5)))["data"]["train"]["sequence"] is None


def test_epochs_of_a_number_of_steps_are_refused() -> None:
    with pytest.raises(UsageError, match="fit.steps_per_epoch 6, with data that is read in sequence"):
        plan(packed(30, 3), steps_per_epoch=6)
