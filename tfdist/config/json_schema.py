"""JSON schema of a config, for editors: generated from the sections, which the checker reads too.

What depends on several keys, and what takes files or Keras to know, is left to `tfdist config check`.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from tfdist.config.data_sections import FORMATS, SourceConfig
from tfdist.config.schema import RunConfig
from tfdist.config.section import Section, hints_of

DIALECT = "http://json-schema.org/draft-07/schema#"
"""The one that editors know best."""

_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
_ENTRY = re.compile(r"^    (?:    )?(\w+): (.*(?:\n {8,}\S.*)*)", re.MULTILINE)


def config_schema() -> dict[str, Any]:
    """The schema of a config file, in JSON's types.

    Example:
        `json.dumps(config_schema())` is what `tfdist config schema` prints.
    """
    definitions: dict[str, Any] = {}
    whole = _of_section(RunConfig, definitions)
    # A file without a name has its own; the config in a run directory says with which versions it ran.
    whole["required"].remove("name")
    whole["properties"]["versions"] = {"type": "object", "description": "Of packages, in the config of a run; ignored."}
    return {"$schema": DIALECT, "title": "A config of tfdist train", **whole, "definitions": definitions}


def _of_section(cls: type[Section], definitions: dict[str, Any]) -> dict[str, Any]:
    texts = described_keys(cls)
    properties, required = {}, []
    for field in dataclasses.fields(cls):
        found = _of_hint(hints_of(cls)[field.name], definitions)
        if field.name in texts:
            # Beside a $ref, this dialect ignores all else.
            found = {"allOf": [found]} if "$ref" in found else found
            found = {"description": texts[field.name], **found}
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        if default is dataclasses.MISSING:
            required.append(field.name)
        elif not isinstance(default, Section):
            found = {**found, "default": list(default) if isinstance(default, tuple) else default}
        properties[field.name] = found
    summary = (inspect.getdoc(cls) or "").partition("\n")[0]
    return {
        "type": "object",
        "description": summary,
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def described_keys(cls: type[Section]) -> dict[str, str]:
    """Returns what the docstrings of a section and of its bases say of each key, on one line."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        _, _, attributes = (inspect.cleandoc(base.__doc__ or "")).partition("Attributes:\n")
        for name, text in _ENTRY.findall(attributes):
            found[name] = " ".join(text.split())
    return {name: found[name] for name in cls.key_names() if name in found}


def _reference(cls: type[Section], definitions: dict[str, Any]) -> dict[str, Any]:
    name = cls.__name__
    if name not in definitions:
        definitions[name] = {}  # a section that contains itself finds this
        definitions[name] = _of_source(definitions) if cls is SourceConfig else _of_section(cls, definitions)
    return {"$ref": f"#/definitions/{name}"}


def _of_source(definitions: dict[str, Any]) -> dict[str, Any]:
    """One of the formats, by the key `format`: an editor then shows the mistakes of that one alone."""
    chosen = [
        {
            "if": {"properties": {"format": {"const": name}}, "required": ["format"]},
            "then": _reference(cls, definitions),
        }
        for name, cls in FORMATS.items()
    ]
    return {
        "type": "object",
        "properties": {"format": {"enum": list(FORMATS)}},
        "required": ["format"],
        "allOf": chosen,
    }


def _of_hint(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if isinstance(hint, type) and issubclass(hint, Section):
        return _reference(hint, definitions)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        base, *rules = arguments
        found = _of_hint(base, definitions)
        for rule in rules:
            found = {**found, **rule.schema}
        return found
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_of_hint(option, definitions) for option in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is Sequence:
        return {"type": "array", "items": _of_hint(arguments[0], definitions)}
    if origin is Mapping:
        return _of_mapping(arguments[0], _of_hint(arguments[1], definitions))
    return {} if hint is Any else {"type": _TYPES[hint]}


def _of_mapping(key: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    if key is int:
        # JSON, and editors of YAML with it, know texts as keys alone.
        return {"type": "object", "patternProperties": {"^-?[0-9]+$": values}, "additionalProperties": False}
    return {"type": "object", "additionalProperties": values}


def schema_text() -> str:
    """The schema as a file."""
    return json.dumps(config_schema(), indent=1)
