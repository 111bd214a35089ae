"""Keras's own tests under two replicas: what passes on one device passes there, but for what is listed with its reason.

Nightly, where TFDIST_KERAS_TESTS names the folder of Keras that has them: the wheel does, in `site-packages/keras/src`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("TFDIST_KERAS_TESTS" not in os.environ, reason="TFDIST_KERAS_TESTS names no folder"),
]

FOLDERS = {
    "optimizers": ["optimizers"],
    "trainers": ["trainers/trainer_test.py", "trainers/compile_utils_test.py", "trainers/epoch_iterator_test.py"],
    "callbacks": ["callbacks"],
    "saving": ["saving"],
    "models": ["models"],
    # Its other tests make strategies of their own.
    "backend": ["backend/tensorflow/saved_model_test.py", "backend/tensorflow/name_scope_test.py"],
    "layers": ["layers"],
}

BY_NATURE = {
    "OptimizerSparseTest::test_sparse_gradients": "looks at the variable that is assigned, which is a replica's copy",
    "overwrite_with_gradient": "a gradient that is a value, as float8 training has them, is refused",
    "test_finite_step_with_overwrite": "the same",
    "test_warning_for_mismatched_inputs_structure": "counts a warning of a call, which each replica makes",
}
"""Tests that cannot pass under two replicas, by a part of their names, and why."""

BOUND = 3600


def failures(paths: list[str], *options: str) -> set[str]:
    """The names of the tests that fail."""
    folder = Path(os.environ["TFDIST_KERAS_TESTS"])
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "tests.devices.keras_under_strategy"]
    command += ["-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={folder}", *options]
    # It imports orbax, which is no part of the environment.
    command.append(f"--ignore={folder / 'callbacks' / 'orbax_checkpoint_test.py'}")
    environ = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [*command, *(str(folder / path) for path in paths)],
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
        env=environ,
    )
    assert " passed" in done.stdout, done.stdout + done.stderr
    return set(re.findall(r"^FAILED \S*?keras/src/(\S+)", done.stdout, re.MULTILINE))


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_passes_on_one_device_passes_on_two(folder: str) -> None:
    here = failures(FOLDERS[folder])
    unexpected = sorted(name for name in here if not any(part in name for part in BY_NATURE))
    if unexpected:
        unexpected = sorted(set(unexpected) - failures(FOLDERS[folder], "--plain-keras"))
    assert unexpected == []
