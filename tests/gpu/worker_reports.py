"""Runs of a script that reports what it finds, on GPUs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.helpers.cli_process import ROOT, tfdist

SCRIPTS = Path(__file__).parent / "scripts"


def reports(folder: Path, script: str, *options: object, arguments: tuple[object, ...] = ()) -> list[dict[str, Any]]:
    """What each worker reports, the chief's first.

    Args:
        folder: A new or empty folder.
        script: A script of `scripts/`, which writes its report to the path that it is given, with its index behind it.
        *options: Of `tfdist train`.
        arguments: Of the script, after the path.
    """
    out = folder / "report"
    done = tfdist(
        *("train", *options, "--run-dir", folder / "run", SCRIPTS / script, out, *arguments), timeout=280, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    files = sorted(folder.glob("report.*"), key=lambda file: int(file.suffix[1:]))
    return [json.loads(file.read_text()) for file in files]
