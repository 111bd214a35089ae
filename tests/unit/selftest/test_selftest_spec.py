from __future__ import annotations

import pytest

from tfdist.errors import UsageError
from tfdist.selftest.rows import ROWS
from tfdist.selftest.selftest_spec import SelftestSpec


def test_all_rows_unless_some_are_named() -> None:
    assert SelftestSpec().chosen == ROWS
    # In the order of the table.
    assert [row.name for row in SelftestSpec(only=("speed", "dense", "dense")).chosen] == ["dense", "speed"]


def test_a_row_that_there_is_not() -> None:
    with pytest.raises(UsageError, match="Received: --only mask. Did you mean masks?"):
        SelftestSpec(only=("dense", "mask"))


def test_one_worker_is_no_comparison() -> None:
    with pytest.raises(UsageError, match="Expected --nproc 2 or more"):
        SelftestSpec(nproc=1)


def test_names_are_one_word_and_come_once() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)
