"""Runs an order's rows."""

from __future__ import annotations

import sys

from tfdist.selftest.matrix import copies_row, saving_rows, speed_row, training_rows
from tfdist.selftest.matrix.row_runner import run_rows

if __name__ == "__main__":
    run_rows({**training_rows.ROWS, **saving_rows.ROWS, **copies_row.ROWS, **speed_row.ROWS}, sys.argv[1])
