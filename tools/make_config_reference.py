"""Writes docs/config-reference.md, the reference of a config, from the schema that `tfdist config schema` prints.

    python tools/make_config_reference.py
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tfdist.config.json_schema import config_schema  # noqa: E402

PAGE = ROOT / "docs" / "config-reference.md"
SECTIONS = {
    "model": "ModelConfig",
    "compile": "CompileConfig",
    "data": "DataConfig",
    "fit": "FitConfig",
    "fit.distill": "DistillConfig",
    "devices": "DevicesConfig",
    "checkpoint": "CheckpointConfig",
}
_HEAD = """# Every key of a config

From the schema that `tfdist config schema` prints for editors; written by
`python tools/make_config_reference.py`. `tfdist config check CONFIG` says all mistakes of a config at once. On the
command line `--set fit.epochs=5` comes before what the config says. Paths are relative to the config; a *dotted path*
names a Python function or class, as in `mypackage.models.build`. [Configs](config.md) says how they are
written and checked.
"""


def main() -> None:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)


def page() -> str:
    """The text of the page."""
    schema = config_schema()
    definitions = schema["definitions"]
    lines = [_HEAD, "## The run", "", *_table(schema)]
    for section, name in SECTIONS.items():
        lines += ["", f"## `{section}`", "", definitions[name]["description"], "", *_table(definitions[name])]
    sources = {name: body for name, body in definitions.items() if _format(body)}
    common = set.intersection(*(set(body["properties"]) for body in sources.values())) - {"format"}
    any_source = next(iter(sources.values()))
    lines += ["", "## Data of every format", "", "Keys of `data.train` and `data.validation`.", ""]
    lines += _table({"properties": {key: value for key, value in any_source["properties"].items() if key in common}})
    for body in sources.values():
        own = {key: value for key, value in body["properties"].items() if key not in {*common, "format"}}
        lines += ["", f"## `format: {_format(body)}`", "", body["description"], ""]
        lines += _table({**body, "properties": own})
    feature = definitions["FeatureConfig"]
    lines += ["", "## A feature of a record", "", feature["description"], "", *_table(feature)]
    return "\n".join(lines) + "\n"


def _format(body: Mapping[str, Any]) -> str:
    """The value of `format` of a source; empty for any other section, and for the one that chooses among them."""
    value = body.get("properties", {}).get("format", {})
    return str(value["enum"][0]) if len(value.get("enum", [])) == 1 else ""


def _table(body: Mapping[str, Any]) -> Iterator[str]:
    yield "| key | type | default | |"
    yield "| --- | --- | --- | --- |"
    for key, value in body["properties"].items():
        given = "must be given" if key in body.get("required", []) else ""
        default = f"`{json.dumps(value['default'])}`" if "default" in value else given
        text = re.sub(r"\s+", " ", value.get("description", "")).replace("|", "\\|")
        yield f"| `{key}` | {_type(value).replace('|', chr(92) + '|')} | {default} | {text} |"


def _type(value: Mapping[str, Any]) -> str:
    """What a value is, in words."""
    if "const" in value or "enum" in value:
        return " or ".join(f"`{json.dumps(choice)}`" for choice in value.get("enum", [value.get("const")]))
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(_type(one) for one in value["anyOf"]))
    if "allOf" in value or "$ref" in value:
        return "section"
    kind = value.get("type")
    if kind == "array":
        return f"list of {_type(value['items'])}" if isinstance(value.get("items"), dict) else "list"
    return {"object": "mapping", "string": "text", "null": "`null`"}.get(str(kind), str(kind or "any")) + _limits(value)


def _limits(value: Mapping[str, Any]) -> str:
    low, high = value.get("minimum"), value.get("maximum")
    above = value.get("exclusiveMinimum")
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if low is not None:
        return f" from {low}"
    return "" if above is None else f" above {above}"


if __name__ == "__main__":
    main()
