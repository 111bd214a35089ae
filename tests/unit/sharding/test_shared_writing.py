from __future__ import annotations

import pytest

from tfdist.sharding.cut import Cut, evenly, whole
from tfdist.sharding.file_parts import FileParts, SharedValue
from tfdist.sharding.shared_writing import SharedWriting


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("cut", [evenly((101, 3), 2), evenly((7,), 2), whole((5, 3), 1, 2), evenly((1,), 2)])
def test_every_byte_has_one_writer_who_has_its_part(cut: Cut, groups: int) -> None:
    writing, itemsize, begin = SharedWriting(cut, groups), 4, 8
    parts = FileParts(cut.size * itemsize + begin, 2 * groups, tuple(writing.values(begin, itemsize)))
    assert parts.rest_size == begin
    for worker in range(parts.workers):
        assert parts.part_size(worker) == writing.size(worker) * itemsize
    for segment in parts.segments():
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
