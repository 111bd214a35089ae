from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import record_reading


@pytest.mark.parametrize("reader", ["tensorflow", "tfdist"])
def test_reading_records(
    reader: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command_line: Callable[..., None],
    printed: Callable[[], dict],
) -> None:
    monkeypatch.setattr(record_reading, "RECORDS", 100)
    command_line(reader, record_reading.write_files(tmp_path), "--seconds", 1e-3)
    record_reading.main()
    assert printed()["steps_per_second"] > 0


def test_at_least_one_epoch_is_read() -> None:
    assert record_reading.batches_per_second([0], seconds=0.0) > 0


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
