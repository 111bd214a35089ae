from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.made_checkpoints import damage, folder_of, run_with
from tfdist.checkpoint.inspection.checkpoint_entries import checkpoints_of, chosen


def test_a_step_that_is_not_there(tmp_path: Path) -> None:
    run = run_with(tmp_path / "a", 10, 20)
    damage(folder_of(run, 20) / "summary.json")
    held = checkpoints_of(run.path)[1]
    assert chosen(held, 20).stored.step == 20
    with pytest.raises(Exception, match=r"no checkpoint of step 15. Expected one of 10, 20"):
        chosen(held, 15)
