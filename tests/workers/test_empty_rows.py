"""Rows without anything in them: texts of no letters, ragged rows of no values, outputs of no features.

TensorFlow gathers them from all workers as tensors without elements, and ends by SIGSEGV, if nobody repairs it.
"""

from pathlib import Path

import pytest

from tests.helpers.marks import slow
from tests.workers.worker_scripts import BOUND, EMULATED, assert_close, train


@pytest.mark.bound(2 * BOUND)
@pytest.mark.parametrize(
    ("workers", "communication", "environ"), [(2, "auto", {}), slow(3, "ring", {}), slow(2, "auto", EMULATED)]
)
def test_numbers_of_one_worker(tmp_path: Path, workers: int, communication: str, environ: dict[str, str]) -> None:
    (expected,) = train(tmp_path / "one", "empty_rows.py", workers=1)
    every = train(
        tmp_path / "several", "empty_rows.py", workers=workers, communication=communication, environ=environ
    )
    for found in every:
        assert_close([expected[name] for name in ("texts", "ragged", "ids")],
                     [found[name] for name in ("texts", "ragged", "ids")])  # fmt: skip
        for name in ("predicted texts", "predicted ragged", "predicted features"):
            assert found[name] == expected[name]
