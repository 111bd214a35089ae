"""Section of a config that reads the shards, as YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from tfdist.config.yaml_types import Dumper


def config_text(section: Mapping[str, Any]) -> str:
    """A `data` section in YAML that trains on what `section` describes."""
    entries = {"format": section["format"], "files": section["files"]}
    features = "".join(f"      {_text(name)}: {_flow(feature)}\n" for name, feature in section["features"].items())
    lines = yaml.dump(entries, Dumper=Dumper, sort_keys=False, width=1000).splitlines()
    head = "".join(f"    {line}\n" for line in lines)
    return f"data:\n  train:\n{head}    features:\n{features}    label: {_text(section['label'])}"


def _text(text: str) -> str:
    """A text as a key or a value, in quotes where it would be read as something else."""
    return _flow([text])[1:-1]


def _flow(content: Any) -> str:
    return yaml.dump(content, Dumper=Dumper, sort_keys=False, default_flow_style=True, width=1000).strip()
