from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "a.npz", x_train=np.zeros((5, 2)), y_train=np.zeros(5), x_test=np.zeros(2), y_test=np.zeros(2))
    (tmp_path / "a.csv").write_text("a,b,y\n1,2,3\n")
    (tmp_path / "a.txt").write_text("1\tone\n\n2\ttwo\n")
    (tmp_path / "a.dat").touch()
    (tmp_path / "images").mkdir()
