"""The folder with the results: a table in Markdown, a picture as SVG, and all figures as JSON."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any


class ResultFolder:
    """Results of one run of a benchmark, written anew whenever more of them are there.

    Args:
        name: The benchmark's, which the files are called by.
        path: The folder; None for one of its own with the time in its name, below `build/benchmarks`.

    Raises:
        FileExistsError: It holds results already: none is ever replaced.
    """

    def __init__(self, name: str, path: str | None) -> None:
        self._name = name
        self.path = Path(path or Path("build", "benchmarks", f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"))
        self.path.mkdir(parents=True, exist_ok=True)
        for ending in ("md", "svg", "json"):
            if self._file(ending).exists():
                raise FileExistsError(
                    f"{self._file(ending)} is there already. Expected a folder without results. Give another one."
                )

    def write(self, table: str, picture: str, figures: dict[str, Any]) -> None:
        """Writes the three files; each is whole at any moment."""
        for ending, text in (("md", table), ("svg", picture), ("json", json.dumps(figures, indent=1) + "\n")):
            fresh = self.path / f".{self._name}.{ending}"
            fresh.write_text(text, encoding="utf-8")
            os.replace(fresh, self._file(ending))

    def _file(self, ending: str) -> Path:
        return self.path / f"{self._name}.{ending}"
