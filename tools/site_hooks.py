"""What mkdocs.yml cannot say: the version at the foot of each page, from where all have it."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def on_config(config: Any) -> Any:
    """Called by MkDocs with its configuration, before it builds."""
    version = runpy.run_path(str(ROOT / "tfdist" / "versions.py"))["VERSION"]
    config["copyright"] = f"tfdist {version}, Apache-2.0"
    return config
