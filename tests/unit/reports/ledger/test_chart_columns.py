from __future__ import annotations

import pytest

from tests.helpers.ledger_lines import killed_once, running
from tfdist.reports.ledger.account_reader import build_account
from tfdist.reports.ledger.chart_columns import columns
from tfdist.rundir.ledger_lines import TimeKind


def test_the_columns_add_up_to_the_wall_time() -> None:
    made = build_account(killed_once())
    assert made is not None
    cut = columns(made, 7)
    assert [sum(column.values()) for column in cut] == pytest.approx([100 / 7] * 7)
    for kind in TimeKind:
        assert sum(column.get(kind, 0.0) for column in cut) == pytest.approx(made.seconds[kind])
    empty = build_account([running(0, 0.0, 0.0)])
    assert empty is not None and columns(empty) == []
