"""Types of the scalars in a YAML file: PyYAML's, except for scalars that people take for something else."""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from tfdist.config.field_errors import shown

_SHORT_FLOAT = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$")
_BEGINS_FLOAT = list("-+0123456789")

_AMBIGUOUS = re.compile(r"[-+]?(0[0-9_]+|[0-9_]+:.+)")
"""An octal number such as 010 or a sexagesimal one such as 1:30, which YAML 1.2 reads as other numbers or strings."""


class Loader(yaml.SafeLoader):
    """Loads YAML without object construction, and reads `1e-3`, which PyYAML takes for a string, as a number."""


class Dumper(yaml.SafeDumper):
    """Writes values so that `Loader` reads them as they were: the string `1e-3` in quotes, for example."""


def _read_scalar(loader: Loader, node: yaml.ScalarNode) -> Any:
    """A number, date or bool. For impossible ones such as 2026-02-30, PyYAML alone raises errors without a place."""
    try:
        value = _READ_SCALAR[node.tag](loader, node)
    except (ValueError, KeyError, AttributeError) as error:
        kind = node.tag.rpartition(":")[2]
        problem = f"{shown(node.value)} is read as {kind} and is none ({error}): correct it, or quote it as a text"
        raise ConstructorError(None, None, problem, node.start_mark) from error
    if _AMBIGUOUS.fullmatch(node.value):
        problem = f"{node.value} is {value} in YAML 1.1 alone: write the number that is meant, or quote it as a text"
        raise ConstructorError(None, None, problem, node.start_mark)
    return value


def _read_text(loader: Loader, node: yaml.ScalarNode) -> Any:
    return loader.construct_scalar(node)


_READ_SCALAR = {
    f"tag:yaml.org,2002:{kind}": yaml.SafeLoader.yaml_constructors[f"tag:yaml.org,2002:{kind}"]
    for kind in ("bool", "float", "int", "timestamp")
}
for _tag in _READ_SCALAR:
    Loader.add_constructor(_tag, _read_scalar)
# A single = has a type of its own in YAML 1.1, which PyYAML cannot construct.
Loader.add_constructor("tag:yaml.org,2002:value", _read_text)
Loader.add_implicit_resolver("tag:yaml.org,2002:float", _SHORT_FLOAT, _BEGINS_FLOAT)
Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _SHORT_FLOAT, _BEGINS_FLOAT)
