"""What an API server would say of an object, as far as schemas tell: unknown fields are refused, too."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate: the extra dev")

OLDEST, NEWEST = "1.31", "1.37"
_FOLDER = Path(__file__).with_name("schemas")
CUSTOM = sorted(_FOLDER.glob("*.json"))


def check(document: dict[str, Any], version: str = NEWEST) -> None:
    """Checks an object as the version of Kubernetes would, and one of a kind that is not its own by that kind's schema.

    Raises:
        jsonschema.ValidationError: It would be refused.
    """
    custom = custom_schemas().get((document["apiVersion"], document["kind"]))
    if custom is None:
        kubernetes_validate.validate(document, version, strict=True)
        return
    jsonschema.Draft202012Validator(custom).validate(document)
    # The schema of a custom kind leaves the metadata to Kubernetes.
    named = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": document["metadata"]}
    kubernetes_validate.validate(named, version, strict=True)


@functools.cache
def custom_schemas() -> dict[tuple[str, str], dict[str, Any]]:
    """API version and kind -> the schema that refuses unknown fields."""
    read = [json.loads(file.read_text()) for file in CUSTOM]
    return {(each["apiVersion"], each["kind"]): strict(each["schema"]) for each in read}


def strict(schema: Any) -> Any:
    """A schema of Kubernetes in the words of JSON Schema, without unknown fields."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: strict(each) for name, each in schema.items()}
    if schema.get("x-kubernetes-int-or-string"):
        found.pop("type", None)
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if isinstance(schema.get("properties"), dict) and not is_open:
        found["additionalProperties"] = False
    return found
