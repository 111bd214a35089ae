"""Which checkpoint of a traced run is the furthest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.checkpoint.checkpoint_files import MARKER
from tfdist.training.probes.tracer import furthest_checkpoint


@pytest.mark.parametrize(
    ("there", "furthest"),
    [
        ([], (0, 0)),
        (["step-00000020"], (1, 20)),
        (["step-00000020", "step-00000020.1", "step-00000100"], (1, 100)),
        (["step-00000100", "fit-2/step-00000004", "fit-10/step-00000001"], (10, 1)),
    ],
)
def test_the_furthest_checkpoint(tmp_path: Path, there: list[str], furthest: tuple[int, int]) -> None:
    for name in there:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / MARKER).touch()
    (tmp_path / "fit-11" / "step-00000001").mkdir(parents=True)  # not whole
    assert furthest_checkpoint(tmp_path) == furthest
