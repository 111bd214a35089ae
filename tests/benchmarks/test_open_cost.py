from __future__ import annotations

from pathlib import Path

from benchmarks import open_cost


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
