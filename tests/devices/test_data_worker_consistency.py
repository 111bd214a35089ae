"""What workers agree on before the first step, with the other workers played by the test."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.devices.test_data_formats import parse
from tests.devices.test_data_sequential import write
from tfdist.data import worker_consistency
from tfdist.data.formats.array_samples import ArraySamples
from tfdist.data.formats.tfrecord_samples import ParsedRecordSamples
from tfdist.data.sample_feed import SampleFeed
from tfdist.data.sample_source import SampleSource
from tfdist.data.worker_consistency import AgreedSource, agree
from tfdist.errors import DataError, UsageError
from tfdist.runtime.batches.dataset_description import EpochCounter

Say = dict[str, Any]


def numbered(first: int, count: int) -> ArraySamples:
    numbers = np.arange(first, first + count)
    return ArraySamples(numbers, numbers)


def found(source: SampleSource) -> Say:
    return {"found": dataclasses.asdict(source.fingerprint())}


def as_worker_0_of_2(monkeypatch: pytest.MonkeyPatch, other: Say) -> None:
    monkeypatch.setattr(worker_consistency, "worker_count", lambda strategy: 2)
    monkeypatch.setattr(worker_consistency, "worker_rank", lambda strategy: 0)
    monkeypatch.setattr(worker_consistency, "gather_objects", lambda own, strategy: [own, other])


def agreed(open_source: Callable[[], SampleSource], sharding: Any = "auto") -> AgreedSource:
    return agree(open_source, sharding, tf.distribute.get_strategy())


def test_the_same_data_is_dealt(monkeypatch: pytest.MonkeyPatch) -> None:
    as_worker_0_of_2(monkeypatch, found(numbered(0, 5)))
    result = agreed(lambda: numbered(0, 5))
    assert (result.sizes, result.samples) == (None, 5)


def test_other_data_is_not_dealt_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    as_worker_0_of_2(monkeypatch, found(numbered(5, 5)))
    with pytest.raises(DataError, match="their content is not.* sharding: none"):
        agreed(lambda: numbered(0, 5))


def test_each_takes_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    as_worker_0_of_2(monkeypatch, found(numbered(5, 7)))
    result = agreed(lambda: numbered(0, 5), "none")
    assert (result.sizes, result.worker, result.samples) == ((5, 7), 0, 12)


@pytest.mark.parametrize("sharding", ["auto", "none"])
def test_what_another_worker_cannot_open_is_an_error_here(monkeypatch: pytest.MonkeyPatch, sharding: str) -> None:
    as_worker_0_of_2(monkeypatch, {"error": "No such file: a."})
    with pytest.raises(DataError, match="^Worker 1 cannot open the data, and the others can.*No such file: a"):
        agreed(lambda: numbered(0, 5), sharding)


def test_what_this_worker_cannot_open_it_tells_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    as_worker_0_of_2(monkeypatch, found(numbered(0, 5)))
    with pytest.raises(DataError, match="^Worker 0 cannot open the data, and the others can"):
        agreed(lambda: ArraySamples(np.zeros(0)))


def test_an_unknown_sharding() -> None:
    with pytest.raises(UsageError, match="sharding: expected auto or none. Received: 'off'"):
        agreed(lambda: numbered(0, 5), "off")


@pytest.mark.parametrize("replicas", [2, 4])
@pytest.mark.parametrize("in_sequence", [False, True])
def test_shares_make_full_batches_of_all_samples(tmp_path: Path, replicas: int, in_sequence: bool) -> None:
    """Both workers' pipelines, read side by side."""
    sizes, each, labels = (11, 5), replicas // 2, []
    for worker, size in enumerate(sizes):
        (tmp_path / str(worker)).mkdir()
        first = sum(sizes[:worker])
        source = (
            ParsedRecordSamples(write(str(tmp_path / str(worker)), [size - 2, 2]), parse, shuffle_buffer=4)
            if in_sequence
            else numbered(0, size)
        )
        feed = SampleFeed.of(AgreedSource(source, sizes, worker), 6, 3, True, replicas)
        ids = range(worker * each, (worker + 1) * each)
        read = [y.numpy() + first for _, y in feed.batches(ids, 0, EpochCounter())]
        assert len(read) == len(feed.steps) * each
        labels.append([np.concatenate(read[step * each : (step + 1) * each]) for step in range(len(feed.steps))])
    batches = [np.concatenate(pieces) for pieces in zip(*labels, strict=True)]
    assert [len(batch) for batch in batches] == [6, 6, 4]
    assert sorted(np.concatenate(batches).tolist()) == list(range(16))
