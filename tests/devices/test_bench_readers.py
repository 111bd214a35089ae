"""The benchmarks of readers run, on little data; what they measure is nothing for a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import open_cost, record_reading


def test_opening(tmp_path: Path) -> None:
    small, large = tmp_path / "small.tfrecord", tmp_path / "large.tfrecord"
    open_cost.write_records(small, 10)
    open_cost.write_records(large, 1000)
    assert set(open_cost.measure(small, large, seconds=0.0)) == {
        "seconds_to_index",
        "seconds_to_first_batch",
        "seconds_to_batch_in_the_middle",
        "megabytes_above",
    }


@pytest.mark.parametrize("parse", [False, True])
def test_both_readers_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parse: bool) -> None:
    monkeypatch.setattr(record_reading, "RECORDS", 100)
    pattern = record_reading.write_files(tmp_path)

    def read(batches: object) -> list[object]:
        labels = []
        for batch in batches:
            if parse:
                y = batch["y"] if isinstance(batch, dict) else batch[1]
                labels += y.numpy().tolist()
            else:
                labels += batch.numpy().tolist()
        return sorted(labels)

    assert read(record_reading.in_sequence(pattern, parse)) == read(record_reading.in_random_order(pattern, parse))
