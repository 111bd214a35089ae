from __future__ import annotations

import pytest

from tests.unit.plan.sources import plan, source
from tfdist.plan.plan import Batch
from tfdist.plan.sizes import Layout


@pytest.mark.parametrize(
    ("samples", "replicas", "expected"),
    [
        (32, 1, Batch(32, 32, 32, 0)),
        (32, 4, Batch(32, 8, 8, 0)),
        (32, 3, Batch(32, 10, 11, 0)),
        (3, 8, Batch(3, 0, 1, 5)),
    ],
)
def test_a_batch_is_dealt(samples: int, replicas: int, expected: Batch) -> None:
    assert Batch.deal(samples, replicas) == expected


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
    layout = Layout(workers=2, replicas=6)
    memory = plan(source(100, sample_bytes=7, held_bytes=1000, estimated=True), 12, layout).train.memory
    # Three replicas, each with two waiting batches and one that is trained on, and two in work: of two samples each.
    assert (memory.held, memory.batches, memory.total) == (1000, (3 * 3 + 2) * 2 * 7, 1000 + 154)
    assert memory.estimated


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        ("adam", ("adam", None)),
        ({"name": "sgd", "learning_rate": 0.5}, ("sgd", 0.5)),
        ({"name": "sgd"}, ("sgd", None)),
        ({"name": "sgd", "learning_rate": {"class_name": "CosineDecay", "config": {}}}, ("sgd", "CosineDecay")),
    ],
)
def test_the_learning_rate(optimizer: object, expected: tuple[str, object]) -> None:
    made = plan(source(100), optimizer=optimizer)
    assert (made.optimizer, made.learning_rate) == expected


def test_sources() -> None:
    assert [part.key for part in plan(source(5)).sources] == ["data.train"]
    both = plan(source(5), validation=source(7)).sources
    assert [(part.key, part.samples) for part in both] == [("data.train", 5), ("data.validation", 7)]
