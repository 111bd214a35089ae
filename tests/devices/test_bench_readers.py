"""The benchmarks of readers run, on little data; what they measure is nothing for a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.bench import data, opening


def test_opening(tmp_path: Path) -> None:
    small, large = tmp_path / "small.tfrecord", tmp_path / "large.tfrecord"
    opening.write_records(small, 10)
    opening.write_records(large, 1000)
    assert set(opening.measure(small, large, seconds=0.0)) == {
        "seconds_to_index",
        "seconds_to_first_batch",
        "seconds_to_batch_in_the_middle",
        "megabytes_above",
    }


@pytest.mark.parametrize("parse", [False, True])
def test_both_readers_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parse: bool) -> None:
    monkeypatch.setattr(data, "RECORDS", 100)
    pattern = data.write_files(tmp_path)

    def read(batches: object) -> list[object]:
        labels = []
        for batch in batches:
            if parse:
                y = batch["y"] if isinstance(batch, dict) else batch[1]
                labels += y.numpy().tolist()
            else:
                labels += batch.numpy().tolist()
        return sorted(labels)

    assert read(data.in_sequence(pattern, parse)) == read(data.in_random_order(pattern, parse))
