"""Sizes of data whose files are indexed records."""

from __future__ import annotations

import numpy as np

from tfdist.data.files.file_systems import local_file_system
from tfdist.data.files.remote_files import stamp_of
from tfdist.data.random_access.numbered_records import Records
from tfdist.plan.plan_inputs import FileSizes, SourceSizes


def sizes_of_records(
    form: str,
    records: Records,
    sample_bytes: int | None,
    *,
    estimated: bool = False,
    random_calls: tuple[str, ...] = (),
) -> SourceSizes:
    """Returns the sizes of records that are samples.

    Args:
        form: The name of the format.
        records: Where they lie.
        sample_bytes: Of one sample in a batch; None for the mean size of a record.
        estimated: Whether `sample_bytes` is an estimate, because a function makes the samples.
        random_calls: See `SourceSizes`.
    """
    sizes = [stamp_of(str(path)).size for path in records.paths]
    counts = records.counts.tolist()
    mapped = isinstance(records.starts, np.memmap)
    return SourceSizes(
        form,
        tuple(FileSizes(str(path), *pair) for path, *pair in zip(records.paths, counts, sizes, strict=True)),
        max(0, round(sum(sizes) / len(records)) - records.gap) if sample_bytes is None else sample_bytes,
        estimated,
        held_bytes=0 if mapped else records.starts.nbytes,
        random_calls=random_calls,
        local_disk=local_file_system(records.paths[0]),
    )
