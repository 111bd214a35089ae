from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import paired_commands

SECONDS = 60


def test_commands_run_in_turn(tmp_path: Path) -> None:
    def command(name: str, rate: float) -> list[str]:
        code = f"open('order', 'a').write('{name}'); print('noise'); print('{{\"steps_per_second\": {rate}}}')"
        return ["env", "--chdir", str(tmp_path), sys.executable, "-c", code]

    ratio = paired_commands.compare(command("a", 3.0), command("b", 2.0), pairs=2, timeout=SECONDS)
    assert (tmp_path / "order").read_text() == "abab"
    assert str(ratio) == "1.50 (1.50 to 1.50); medians 3.0 and 2.0 steps/s over 2 pairs"
    with pytest.raises(ValueError, match="printed no line of JSON"):
        paired_commands.compare([sys.executable, "-c", "print(1)"], [], timeout=SECONDS)
    with pytest.raises(subprocess.CalledProcessError):
        paired_commands.compare([sys.executable, "-c", "raise SystemExit(3)"], [], timeout=SECONDS)
