"""How the shards are shown: as the section of a config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml


def config_text(section: Mapping[str, Any]) -> str:
    """A `data` section in YAML that trains on what `section` describes."""
    entries = {"format": section["format"], "files": section["files"]}
    features = "".join(f"      {name}: {_flow(feature)}\n" for name, feature in section["features"].items())
    head = "".join(f"    {line}\n" for line in yaml.safe_dump(entries, sort_keys=False, width=1000).splitlines())
    return f"data:\n  train:\n{head}    features:\n{features}    label: {section['label']}"


def _flow(content: Any) -> str:
    return yaml.safe_dump(content, sort_keys=False, default_flow_style=True, width=1000).strip()
