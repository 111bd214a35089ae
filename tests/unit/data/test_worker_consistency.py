from __future__ import annotations

import pytest

from tfdist.data.fingerprints import Fingerprint
from tfdist.data.worker_consistency import check_opened, check_same
from tfdist.errors import DataError

ONE = Fingerprint(10, "1 file (a)", 1)
OTHER = Fingerprint(7, "2 files (b, c)", 2)


def test_the_same_data_is_no_reason_to_stop() -> None:
    check_same([ONE, ONE, ONE])
    check_opened([None, None])


@pytest.mark.parametrize(
    ("found", "parts"),
    [
        ([ONE, OTHER], ["worker 0 has 1 file (a), 10 samples; worker 1 has 2 files (b, c), 7 samples.", "1/4 of all"]),
        ([ONE, ONE, OTHER], ["worker 0 has 1 file (a), 10 samples; worker 2 has", "1/9 of all samples and not on 1/3"]),
        ([ONE] + [OTHER] * 5, ["worker 3 has", "and 2 more that differ from worker 0"]),
        ([ONE, Fingerprint(10, "1 file (a)", 2)], ["Their names and numbers are the same, but their content is not"]),
    ],
)
def test_data_that_looks_sharded_already(found: list[Fingerprint], parts: list[str]) -> None:
    with pytest.raises(DataError) as raised:
        check_same(found)
    for part in ["The workers see different data: ", *parts, "sharding: none"]:
        assert part in str(raised.value)


@pytest.mark.parametrize(
    ("errors", "start"),
    [
        (["No file.", "No file."], "No file."),
        ([None, "No file.", None], "Worker 1 cannot open the data, and the others can. Worker 1 says: No file."),
        (["a.", None, "b."], "Workers 0, 2 cannot open the data, and the others can. Worker 0 says: a."),
        (["a.", "b."], "No worker can open its data. Worker 0 says: a."),
        ([None] + ["a."] * 6, "Workers 1, 2, 3, 4, ... cannot open the data"),
    ],
)
def test_what_one_worker_cannot_open_all_workers_say(errors: list[str | None], start: str) -> None:
    with pytest.raises(DataError) as raised:
        check_opened(errors)
    assert str(raised.value).startswith(start)
