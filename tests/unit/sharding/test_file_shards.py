"""Which bytes of a file each worker has: every one is in one place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tfdist.sharding.cut import Cut, evenly, uncut
from tfdist.sharding.file_shards import FileShards, Segment, SharedValue, SharedWriting

SHARDS = FileShards(20, 2, (SharedValue(10, (0, 2, 6)), SharedValue(2, (0, 3, 3))))
"""The second value comes first in the file, and the second worker has nothing of it."""


def segments_of(shards: FileShards) -> list[Segment]:
    found: list[Segment] = []
    while (place := sum(segment.size for segment in found)) < shards.size:
        found.append(shards.at(place))
        inside = range(found[-1].begin, found[-1].begin + found[-1].size)
        assert place == inside.start and all(shards.at(other) == found[-1] for other in inside)
    assert shards.gaps == [segment for segment in found if segment.worker is None]
    return found


def test_repeated_values_follow_one_another() -> None:
    shards = FileShards(18, 2, (SharedValue(12, (0, 1, 1)), SharedValue(2, (0, 1, 3), 3), SharedValue(2, (0, 0, 0))))
    assert segments_of(shards) == [
        Segment(0, 2, None, 0),
        *(Segment(2, 1, 0, 1), Segment(3, 2, 1, 0)),
        *(Segment(5, 1, 0, 2), Segment(6, 2, 1, 2)),
        *(Segment(8, 1, 0, 3), Segment(9, 2, 1, 4)),
        *(Segment(11, 1, None, 2), Segment(12, 1, 0, 0), Segment(13, 5, None, 3)),
    ]
    assert [shards.shard_size(0), shards.shard_size(1), shards.rest_size] == [4, 6, 8]
    assert FileShards.from_dict(json.loads(json.dumps(shards.to_dict()))) == shards


def test_all_bytes_are_in_one_place() -> None:
    assert segments_of(SHARDS) == [
        Segment(0, 2, None, 0),
        Segment(2, 3, 0, 2),
        Segment(5, 5, None, 2),
        Segment(10, 2, 0, 0),
        Segment(12, 4, 1, 0),
        Segment(16, 4, None, 7),
    ]
    assert [SHARDS.shard_size(0), SHARDS.shard_size(1), SHARDS.rest_size] == [5, 4, 11]


@pytest.mark.parametrize(
    "shards", [FileShards(7, 3, ()), FileShards(4, 1, (SharedValue(0, (0, 4)),)), FileShards(0, 1, ())]
)
def test_files_without_a_part_or_a_rest(shards: FileShards) -> None:
    segments = segments_of(shards)
    assert sum(segment.size for segment in segments) == shards.size
    assert len(segments) == (1 if shards.size else 0)


def test_json_leads_back() -> None:
    assert FileShards.from_dict(json.loads(json.dumps(SHARDS.to_dict()))) == SHARDS


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
        ({"repeats": [1]}, "how often"),
        ({"repeats": [0, 1]}, "not shared"),
        ({"repeats": [1, 3]}, "overlaps"),
        ({"repeats": [1, True]}, "no integers"),
    ],
)
def test_what_is_no_table(change: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        FileShards.from_dict({**SHARDS.to_dict(), **change})


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("cut", [evenly((101, 3), 2), evenly((7,), 2), uncut((5, 3), 1, 2), evenly((1,), 2)])
def test_every_byte_has_one_writer_who_has_its_part(cut: Cut, groups: int) -> None:
    writing, itemsize, begin = SharedWriting(cut, groups), 4, 8
    shards = FileShards(cut.size * itemsize + begin, 2 * groups, tuple(writing.values(begin, itemsize)))
    assert shards.rest_size == begin
    for worker in range(shards.workers):
        assert shards.shard_size(worker) == writing.size(worker) * itemsize
    for segment in segments_of(shards):
        if segment.worker is not None:
            start, stop = writing.span(segment.worker)
            origin = cut.bounds[segment.worker % 2]
            written = (begin + (origin + start) * itemsize, begin + (origin + stop) * itemsize)
            assert (segment.begin, segment.begin + segment.size) == written


def test_groups_write_as_much_as_one_another() -> None:
    writing = SharedWriting(evenly((100, 2), 2), 2)
    assert [writing.size(worker) for worker in range(4)] == [50, 50, 50, 50]
    assert writing.values(8, 4) == [SharedValue(8, (0, 200, 200, 400, 400)), SharedValue(408, (0, 0, 200, 200, 400))]


def test_one_group_has_the_ranges_of_its_cut() -> None:
    assert SharedWriting(evenly((100, 2), 2)).values(8, 4) == [SharedValue(8, (0, 400, 800))]
