from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.launch.run_dir.saved_progress import saved_line
from tfdist.rundir import RunDir


def checkpoint(folder: Path, name: str, *, is_whole: bool = True) -> None:
    (folder / name).mkdir(parents=True)
    if is_whole:
        (folder / name / "checkpoint.json").touch()


@pytest.mark.parametrize(("is_kept", "said"), [(True, "came to no checkpoint; --checkpoint-"), (False, "a script is")])
def test_nothing_is_saved(is_kept: bool, said: str, tmp_path: Path) -> None:
    checkpoint(tmp_path / "checkpoints", "step-00000100", is_whole=False)
    line = saved_line(RunDir(tmp_path), 82, is_kept=is_kept)
    assert line.startswith("nothing of its 82 steps is saved: ") and said in line


def test_the_newest_whole_checkpoint_of_the_last_fit_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    checkpoint(folder, "step-00000100")
    checkpoint(folder, "step-00000400.1")
    checkpoint(folder, "step-00000500", is_whole=False)
    line = saved_line(RunDir(tmp_path), 520, is_kept=True)
    assert line == f"saved: step 400, in {folder}; --run-dir {tmp_path} --resume auto goes on there"
    checkpoint(folder / "fit-2", "step-00000020")
    (folder / "fit-3").mkdir()
    assert saved_line(RunDir(tmp_path), 560, is_kept=True).startswith("saved: step 20 of fit 2, in ")
