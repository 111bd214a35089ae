"""The rows of `tfdist selftest` and the functions that run them."""

from __future__ import annotations

from tfdist.selftest.matrix import device_rows, training_rows
from tfdist.selftest.row_jobs import STEPS
from tfdist.selftest.rows import ROWS, RowKind


def test_every_row_has_a_function() -> None:
    functions = {**training_rows.ROWS, **training_rows.SAVING_ROWS, **device_rows.ROWS}
    # What the row of saving has saved is loaded by a function of its own.
    assert set(functions) - {"loading"} == {row.name for row in ROWS}
    assert {row.name for row in ROWS if row.kind is RowKind.COMPARED} == set(training_rows.ROWS)


def test_a_recording_holds_all_rows() -> None:
    recorded = [row for row in ROWS if row.kind in (RowKind.COMPARED, RowKind.LOADED)]
    steps = -(-training_rows.SAMPLES // training_rows.BATCH) * training_rows.EPOCHS
    assert len(recorded) * steps < STEPS
    # The last batch of an epoch has fewer samples than there are replicas.
    assert training_rows.SAMPLES % training_rows.BATCH == 1
