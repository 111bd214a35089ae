"""Runs an order's rows."""

from __future__ import annotations

import sys

from tfdist.selftest.matrix import device_rows, training_rows
from tfdist.selftest.matrix.row_runner import run_rows

if __name__ == "__main__":
    run_rows({**training_rows.ROWS, **training_rows.SAVING_ROWS, **device_rows.ROWS}, sys.argv[1])
