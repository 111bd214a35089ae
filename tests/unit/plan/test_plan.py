from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.plan.sources import plan, source
from tfdist.order.sequential_order import Lanes
from tfdist.plan.plan import BatchSizes
from tfdist.plan.plan_inputs import ClusterSize, SequentialRead, SourceSizes


@pytest.mark.parametrize(
    ("samples", "replicas", "expected"),
    [
        (32, 1, BatchSizes(32, 32, 32, 0)),
        (32, 4, BatchSizes(32, 8, 8, 0)),
        (32, 3, BatchSizes(32, 10, 11, 0)),
        (3, 8, BatchSizes(3, 0, 1, 5)),
    ],
)
def test_a_batch_is_dealt(samples: int, replicas: int, expected: BatchSizes) -> None:
    assert BatchSizes.deal(samples, replicas) == expected


@pytest.mark.parametrize(
    ("samples", "batch_size", "steps", "batch", "tail"),
    [
        (100, 10, 10, 10, None),
        (101, 10, 11, 10, 1),
        (9, 10, 1, 9, None),  # an epoch of one step: its batch is all there is
        (10, 10, 1, 10, None),
        (1, 1, 1, 1, None),
    ],
)
def test_the_steps_of_an_epoch(samples: int, batch_size: int, steps: int, batch: int, tail: int | None) -> None:
    made = plan(source(samples), batch_size).train
    assert (made.samples, made.steps, made.batch.samples) == (samples, steps, batch)
    assert (None if made.tail is None else made.tail.samples) == tail


def test_memory_is_that_of_one_worker() -> None:
    layout = ClusterSize(workers=2, replicas=6)
    memory = plan(source(100, sample_bytes=7, held_bytes=1000, estimated=True), 12, layout).train.memory
    # Three replicas, each with two waiting batches of two samples and one that is trained on; three groups in work.
    assert (memory.held, memory.batches, memory.total) == (1000, 3 * 3 * 2 * 7 + 3 * 1000, 1000 + 126 + 3000)
    assert memory.estimated


@pytest.mark.parametrize(
    ("sizes", "batch_size", "in_work"),
    [
        (source(100, sample_bytes=70), 10, 3 * 1000),
        (source(100, sample_bytes=70), 50, 3 * 50 * 70),  # a batch is more than a group
        (source(100, sample_bytes=7, record=5), 10, 3 * 500),  # and all of the files less than one
        (replace(source(100, sample_bytes=70), format="csv"), 10, 10 * 70),
        (source(100, sample_bytes=70, sequence=SequentialRead("GZIP", Lanes.of([100], 1, 10))), 10, 10 * 70),
    ],
)
def test_memory_of_what_is_being_read(sizes: SourceSizes, batch_size: int, in_work: int) -> None:
    memory = plan(sizes, batch_size).train.memory
    assert memory.batches == 3 * batch_size * sizes.sample_bytes + in_work


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        ("adam", ("adam", None)),
        ({"name": "sgd", "learning_rate": 0.5}, ("sgd", 0.5)),
        ({"name": "sgd"}, ("sgd", None)),
        ({"name": "sgd", "learning_rate": {"name": "cosine_decay"}}, ("sgd", "cosine_decay")),
        ({"build": "my.Own", "args": {"learning_rate": 0.5}}, ("my.Own", 0.5)),
    ],
)
def test_the_learning_rate(optimizer: object, expected: tuple[str, object]) -> None:
    made = plan(source(100), optimizer=optimizer)
    assert (made.optimizer, made.learning_rate) == expected


def test_sources() -> None:
    assert [part.key for part in plan(source(5)).sources] == ["data.train"]
    both = plan(source(5), validation=source(7)).sources
    assert [(part.key, part.samples) for part in both] == [("data.train", 5), ("data.validation", 7)]
