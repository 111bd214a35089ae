"""Which bytes of a file each worker has: every one is in one place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tfdist.sharding.file_parts import FileParts, Segment, SharedValue

PARTS = FileParts(20, 2, (SharedValue(10, (0, 2, 6)), SharedValue(2, (0, 3, 3))))
"""The second value comes first in the file, and the second worker has nothing of it."""


def test_all_bytes_are_in_one_place() -> None:
    assert PARTS.segments() == [
        Segment(0, 2, None, 0),
        Segment(2, 3, 0, 2),
        Segment(5, 5, None, 2),
        Segment(10, 2, 0, 0),
        Segment(12, 4, 1, 0),
        Segment(16, 4, None, 7),
    ]
    assert [PARTS.part_size(0), PARTS.part_size(1), PARTS.rest_size] == [5, 4, 11]


@pytest.mark.parametrize(
    "parts", [FileParts(7, 3, ()), FileParts(4, 1, (SharedValue(0, (0, 4)),)), FileParts(0, 1, ())]
)
def test_files_without_a_part_or_a_rest(parts: FileParts) -> None:
    segments = parts.segments()
    assert sum(segment.size for segment in segments) == parts.size
    assert len(segments) == (1 if parts.size else 0)


def test_json_leads_back() -> None:
    assert FileParts.from_dict(json.loads(json.dumps(PARTS.to_dict()))) == PARTS


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"bytes": 15}, "ends at byte 16 of 15"),
        ({"bytes": "20"}, "no integers"),
        ({"bytes": True}, "no integers"),
        ({"workers": 3}, "not shared by 3 workers"),
        ({"workers": 0}, "0 workers"),
        ({"values": [[0, 0, 2, 6], [5, 0, 3, 3]]}, "overlaps"),
        ({"values": [[0, 0, 7, 6]]}, "not shared"),
        ({"values": [[0, 1, 2, 6]]}, "not shared"),
        ({"values": [[0, 0, -1, 6]]}, "no integers"),
        ({"values": [[]]}, "no bounds"),
        ({"values": {}}, "no table"),
    ],
)
def test_what_is_no_table(change: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        FileParts.from_dict({**PARTS.to_dict(), **change})
