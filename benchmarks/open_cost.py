"""Cost of opening many records: `python -m benchmarks.open_cost [--records N] [--seconds S]`.

Writes a TFRecord file of N small records, indexes it, reads the first batch of an epoch and one in its middle, and
reads on for some seconds. Prints one line of JSON with the seconds of each, and the memory in MB beyond that of a
process which has read a small file of the same kind.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import struct
import tempfile
import time
from pathlib import Path
from typing import Any

BATCH = 256
RECORD_BYTES = 64
_CHUNK = 1 << 16


def main() -> None:
    """Parses the command line, measures and prints."""
    parser = argparse.ArgumentParser(description="Measures opening a TFRecord file of many records.")
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=5.0, help="to read on")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tfdist-bench-") as folder:
        small, large = Path(folder) / "small.tfrecord", Path(folder) / "large.tfrecord"
        write_records(small, 10 * BATCH)
        write_records(large, options.records)
        print(json.dumps(measure(small, large, options.seconds)), flush=True)


def write_records(path: Path, count: int) -> None:
    """Writes `count` records of the same bytes."""
    from tfdist.data.random_access.crc32c import masked_crc32c

    length, data = struct.pack("<Q", RECORD_BYTES), bytes(range(RECORD_BYTES))
    record = b"".join((length, struct.pack("<I", masked_crc32c(length)), data, struct.pack("<I", masked_crc32c(data))))
    with open(path, "wb") as file:
        for written in range(0, count, _CHUNK):
            file.write(record * min(_CHUNK, count - written))


def measure(small: Path, large: Path, seconds: float) -> dict[str, float]:
    """Seconds and MB; see the module."""
    for _ in _open(small):
        pass
    before = _peak_mb()
    index = _seconds(lambda: _open(large))
    gc.collect()
    first = _seconds(lambda: next(iter(_open(large))))
    gc.collect()
    batches = _open(large, middle=True)
    middle = _seconds(lambda: next(iter(batches)))
    batches = None
    gc.collect()  # what is measured is one that is open
    ends = time.perf_counter() + seconds
    for _ in _open(large):
        if time.perf_counter() > ends:
            break
    return {
        "seconds_to_index": index,
        "seconds_to_first_batch": first,
        "seconds_to_batch_in_the_middle": middle,
        "megabytes_above": _peak_mb() - before,
    }


def _open(path: Path, middle: bool = False) -> Any:
    """Batches of the records in random order, from the first step or the middle one of an epoch."""
    from tfdist.data.formats.tfrecord_samples import ParsedRecordSamples
    from tfdist.data.pipeline import build
    from tfdist.order.epoch_span import Position
    from tfdist.runtime.batches.dataset_description import take_partial_epoch

    source = ParsedRecordSamples(str(path), lambda record: record)
    step = len(source) // BATCH // 2 if middle else 0
    batches = build(source, batch_size=BATCH, shuffle=True, seed=1, begin=Position(0, step))
    rest = take_partial_epoch(batches)
    return batches if rest is None else rest.batches()


def _seconds(act: Any) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def _peak_mb() -> float:
    """The most memory that this process ever held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    main()
