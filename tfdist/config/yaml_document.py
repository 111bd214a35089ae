"""A YAML document with overrides: its content, and the line or override that each key came from.

Types of scalars are PyYAML's, except for scalars that people take for something else.
"""

from __future__ import annotations

import errno
import os
import re
import select
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import yaml
from yaml.constructor import ConstructorError

from tfdist.config.field_errors import dotted, shown
from tfdist.errors import ConfigError

_SHORT_FLOAT = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$")
_BEGINS_FLOAT = list("-+0123456789")
_AMBIGUOUS = re.compile(r"[-+]?(0[0-9_]+|[0-9_]+:.+)")
"""An octal number such as 010 or a sexagesimal one such as 1:30, which YAML 1.2 reads as other numbers or strings."""
_READ_SCALAR = {
    f"tag:yaml.org,2002:{kind}": yaml.SafeLoader.yaml_constructors[f"tag:yaml.org,2002:{kind}"]
    for kind in ("bool", "float", "int", "timestamp")
}
_MOST_BYTES = 1 << 19
_PIPE_SECONDS = 10.0
"""Seconds that the next bytes of a pipe may take, as of `tfdist train <(...)`."""
_MOST_VALUES = 1 << 18
"""Read in some seconds; a config of a thousand classes has some thousand values."""


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


for _tag in _READ_SCALAR:
    Loader.add_constructor(_tag, _read_scalar)
# A single = has a type of its own in YAML 1.1, which PyYAML cannot construct.
Loader.add_constructor("tag:yaml.org,2002:value", _read_text)
Loader.add_implicit_resolver("tag:yaml.org,2002:float", _SHORT_FLOAT, _BEGINS_FLOAT)
Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _SHORT_FLOAT, _BEGINS_FLOAT)


@dataclass(frozen=True)
class Document:
    """The content of a config file, with the command line's overrides applied.

    Attributes:
        path: The file.
        content: Its content, in YAML's types.
        lines: Dotted key -> its line, from 1.
        overrides: Dotted key -> the `KEY=VALUE` that set it.
    """

    path: Path
    content: Mapping[str, Any]
    lines: Mapping[str, int]
    overrides: Mapping[str, str] = field(default_factory=dict)

    def is_overridden(self, key: str) -> bool:
        """Returns whether the command line set this key, or a section that contains it."""
        return any(place in self.overrides for place in _upward(key))

    def where(self, key: str) -> str:
        """The file and line, or the override, of this key, or else of the section in which it is missing."""
        for place in _upward(key):
            if place in self.overrides:
                return f"--set {self.overrides[place]}"
        for place in _upward(key):
            if place in self.lines:
                return f"{self.path}:{self.lines[place]}"
        return str(self.path)

    def with_override(self, text: str) -> Document:
        """The document with one `KEY=VALUE` applied; VALUE is YAML.

        Raises:
            ConfigError: It is not of that form, or KEY leads into something that is not a section.
        """
        key, equals, value_text = text.partition("=")
        key = key.strip()
        if not equals or not all(key.split(".")):
            raise ConfigError(f"--set expected KEY=VALUE, such as --set fit.epochs=3. Received: {shown(text)}")
        value, _ = _parse(value_text, lambda line: f"--set {text}")
        content = _replaced(self.content, key.split("."), value, key)
        return replace(self, content=content, overrides={**self.overrides, key: text})


def read_document(path: Path) -> Document:
    """Reads a YAML file.

    Raises:
        ConfigError: It is missing, unreadable or empty, is a script or a directory, is not a YAML mapping, or has a key
            twice.
    """
    try:
        with _opened(path) as file:
            if path.suffix.lower() == ".py":
                raise ConfigError(
                    f"{path} is a Python script. Expected a config, such as CONFIG.yaml, which says in YAML what is "
                    f"trained. Received: {path}. A script needs none: `tfdist train {path}` trains it."
                )
            return parse_document(path, file)
    except FileNotFoundError:
        raise ConfigError(
            f"There is no config file {path.absolute()}. Expected the path of a CONFIG.yaml. Received: {path}"
        ) from None
    except IsADirectoryError:
        own = path / "config.yaml"
        hint = f" The run in it has one: {own}." if own.is_file() else ""
        raise ConfigError(
            f"{path} is a directory. Expected a config, the path of a CONFIG.yaml. Received: {path}.{hint}"
        ) from None
    except OSError as error:
        raise _unreadable(path, error) from error


def parse_document(path: Path, file: IO[bytes]) -> Document:
    """Reads a YAML file that is open.

    Raises:
        ConfigError: It is empty or too large, is not a YAML mapping, or has a key twice.
        OSError: It cannot be read.
    """
    content = _read(file)
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"{path}: expected a config of at most {_MOST_BYTES:,} bytes. Received: more than that")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unreadable(path, error) from error
    settings, lines = _parse(text, lambda line: f"{path}:{line}")
    if not isinstance(settings, Mapping):
        raise ConfigError(f"{path}: expected a config, a mapping of keys to values. Received: {shown(settings)}")
    return Document(path, settings, lines)


def _opened(path: Path) -> IO[bytes]:
    """Opens it without waiting for whoever writes into a pipe."""
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))


def _read(file: IO[bytes]) -> bytes:
    """Its bytes, as many as tell that it is too long; those of a pipe as they come, within a bound."""
    content = b""
    while len(content) <= _MOST_BYTES:
        if not select.select([file], [], [], _PIPE_SECONDS)[0]:
            raise TimeoutError(errno.ETIMEDOUT, f"nothing has come out of it for {_PIPE_SECONDS:g} s")
        part = os.read(file.fileno(), _MOST_BYTES + 1 - len(content))
        if not part:
            break
        content += part
    return content


def _unreadable(path: Path, error: Exception) -> ConfigError:
    return ConfigError(f"{path} cannot be read. Expected a config, YAML in UTF-8. Received: {error}")


def _parse(text: str, place: Callable[[int], str]) -> tuple[Any, dict[str, int]]:
    """The content of a YAML text and the line of every key; `place` names a line, counted from 1, in errors."""
    lines: dict[str, int] = {}
    try:
        loader = Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None, lines
            _count_values(node, place, set(), {})
            _note_lines(node, "", lines, set(), place)
            return loader.construct_document(node), lines
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        if "alias" in f"{getattr(error, 'context', '')} {problem}":
            problem += '; a text that begins with * needs quotes, such as "*.csv"'
        raise ConfigError(f"{place(mark.line + 1 if mark else 1)}: this is not valid YAML: {problem}") from error
    except RecursionError:
        raise ConfigError(f"{place(1)}: brackets or sections are nested too deeply to be a config.") from None


def _count_values(node: yaml.Node, place: Callable[[int], str], above: set[int], counted: dict[int, int]) -> int:
    """Returns how many values `node` stands for, with those of its aliases.

    Args:
        place: Names a line in errors.
        above: The ids of the nodes that contain it.
        counted: Node's id -> what this function returned for it.

    Raises:
        ConfigError: There are too many, as where aliases of aliases repeat a list; or a node contains an alias of
            itself, such as `&a {x: *a}`, which would repeat without end.
    """
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) in counted:
        return counted[id(node)]
    if id(node) in above:
        raise ConfigError(
            f"{place(node.start_mark.line + 1)}: an alias repeats this within itself, without end. Expected aliases of "
            "other parts alone."
        )
    above.add(id(node))
    parts = (part for entry in node.value for part in (entry if isinstance(entry, tuple) else (entry,)))
    values = 1 + sum(_count_values(part, place, above, counted) for part in parts)
    if values > _MOST_VALUES:
        raise ConfigError(
            f"{place(node.start_mark.line + 1)}: this has more than {_MOST_VALUES:,} values. Expected a config; a list "
            "that is as long belongs into a file of the data. Received: many values, or aliases that repeat them"
        )
    above.remove(id(node))
    counted[id(node)] = values
    return values


def _note_lines(node: yaml.Node, key: str, lines: dict[str, int], seen: set[int], place: Callable[[int], str]) -> None:
    """Fills in the line of every key, and refuses a key that a mapping has twice: YAML would keep the last."""
    if not isinstance(node, yaml.CollectionNode) or id(node) in seen:
        return
    seen.add(id(node))
    if not isinstance(node, yaml.MappingNode):
        for position, entry in enumerate(node.value):
            _note_lines(entry, dotted(key, str(position)), lines, seen, place)
        return
    first: dict[str, int] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            continue
        name, line = dotted(key, key_node.value), key_node.start_mark.line + 1
        if name in first:
            raise ConfigError(
                f"{place(line)}: {name} is here twice. Expected it once. Received: line {first[name]} too"
            )
        first[name] = lines[name] = line
        _note_lines(value_node, name, lines, seen, place)


def _replaced(content: Any, names: list[str], value: Any, key: str) -> Any:
    """A copy of `content` with one entry set. What it shares by YAML aliases is not changed."""
    if not names:
        return value
    if content is None:
        content = {}
    if not isinstance(content, Mapping):
        section = key.removesuffix("." + ".".join(names))
        raise ConfigError(
            f"--set {key}: {section} is no section, so that it has no key {names[0]}. Expected a mapping. "
            f"Received: {shown(content)}. Set {section} as a whole."
        )
    return {**content, names[0]: _replaced(content.get(names[0]), names[1:], value, key)}


def _upward(key: str) -> Iterator[str]:
    while key:
        yield key
        key = key.rpartition(".")[0]
