"""The examples of the page on collectives, which say themselves what they give, run on two workers."""

from __future__ import annotations

import re
from pathlib import Path

from tests.helpers.cli_process import tfdist
from tests.helpers.pages import DOCS

BOUND = 100  # seconds


def test_the_examples_run(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (DOCS / "collectives.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    script = tmp_path / "examples.py"
    script.write_text("\n".join(blocks))
    done = tfdist("train", "--nproc", 2, "--quiet", "--run-dir", tmp_path / "run", script, timeout=BOUND)
    assert done.returncode == 0, done.stderr
