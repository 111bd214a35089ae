from __future__ import annotations

import subprocess
import sys

import pytest

import tfdist.checkpoint

WITHOUT_TENSORFLOW = [
    "background_writer",
    "checkpoint_files",
    "checkpoint_pruner",
    "checkpoint_policies",
    "checkpoint_store",
]


def test_reading_and_checking_files_loads_no_tensorflow() -> None:
    """Commands that list, check and prune checkpoints answer at once."""
    modules = ", ".join(f"tfdist.checkpoint.{name}" for name in WITHOUT_TENSORFLOW)
    code = f"import sys, {modules}; sys.exit(bool({{'tensorflow', 'keras', 'numpy'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], timeout=150, check=False).returncode == 0


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Checkpoint'"):
        tfdist.checkpoint.Checkpoint  # noqa: B018
