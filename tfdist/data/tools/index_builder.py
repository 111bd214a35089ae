"""Builder of the indices of files, ahead of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tfdist.data.random_access.record_index import RecordKind, open_index
from tfdist.data.tools.process_pool import ReportProgress, TaskFunction


@dataclass(frozen=True)
class IndexedFile:
    """The index of a file.

    Attributes:
        path: The file.
        records: The number of its records; of lines, those that are not empty.
        place: Where the index is kept; None where nothing could be written.
    """

    path: Path
    records: int
    place: Path | None


def make_indexer(kind: RecordKind) -> TaskFunction:
    """Returns what indexes a file, for `run_in_processes`; it reports files."""

    def index(path: Path, report: ReportProgress) -> IndexedFile:
        found = open_index(path, kind)
        report(1)
        return IndexedFile(path, len(found), found.file)

    return index
