from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import checkpoint_cost


def test_the_cost_of_saving(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command_line: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(checkpoint_cost, "BATCH", 8)
    monkeypatch.chdir(tmp_path)  # it writes beside where it is started
    command_line("mlp", "--window", 1, "--pairs", 2)
    checkpoint_cost.main()
    *costs, summary = capsys.readouterr().out.splitlines()
    assert len(costs) == 2
    assert re.match(r"mlp, one device, a checkpoint of 5\.\d\d MB every 50 steps: ", summary)
    assert not list(tmp_path.iterdir())
    command_line("mlp", "--pairs", 1)
    with pytest.raises(SystemExit):  # before it measures for minutes
        checkpoint_cost.main()
