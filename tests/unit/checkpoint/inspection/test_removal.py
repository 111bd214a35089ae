from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.checkpoint.checkpoint_files import StoredCheckpoint
from tfdist.checkpoint.inspection.checkpoint_entries import CheckpointEntry
from tfdist.checkpoint.inspection.removal import obsolete


def held(step: int) -> CheckpointEntry:
    return CheckpointEntry(StoredCheckpoint(step, 0, Path(f"step-{step}")), 1)


@pytest.mark.parametrize(
    ("whole", "keep", "going"),
    [
        ("yyyy", 1, [3, 2, 1]),
        ("yyyy", 3, [1]),
        ("yyyy", 4, []),
        ("yyyy", 9, []),
        ("nyyy", 1, [2, 1]),  # a damaged one after the latest whole one stays where it is
        ("nnyy", 1, [1]),
        ("ynyy", 2, [1]),  # between two that stay, too
        ("nnny", 1, []),
        ("nnnn", 1, []),  # none is whole: what is left may be all that there is
        ("yyyn", 1, [3, 2, 1]),
        ("", 1, []),
    ],
)
def test_the_latest_whole_ones_stay(whole: str, keep: int, going: list[int]) -> None:
    latest_first = [held(step) for step in range(len(whole), 0, -1)]
    judged = dict(zip((entry.stored.step for entry in latest_first), whole, strict=True))
    gone = obsolete(latest_first, keep, lambda entry: judged[entry.stored.step] == "y")
    assert [entry.stored.step for entry in gone] == going


def test_only_those_that_stay_are_read() -> None:
    asked: list[int] = []

    def is_whole(entry: CheckpointEntry) -> bool:
        asked.append(entry.stored.step)
        return True

    obsolete([held(step) for step in (4, 3, 2, 1)], 2, is_whole)
    assert asked == [4, 3]
