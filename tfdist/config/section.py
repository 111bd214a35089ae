"""Base class of a config's sections: frozen dataclasses that check the types and values of their fields."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from tfdist.config.field_errors import FieldError, dotted, nearest, shown
from tfdist.config.type_rules import describe, matches


@dataclass(frozen=True, kw_only=True)
class Section:
    """Base of every section. A subclass declares its fields; their annotations define what is allowed.

    Raises:
        ConfigError: A field has a wrong type or an impossible value.
    """

    def __post_init__(self) -> None:
        for name, hint in _hints(type(self)).items():
            value = getattr(self, name)
            if not matches(value, hint):
                raise FieldError(name, f"expected {describe(hint)}. Received: {shown(value)}")
        self.check()

    def check(self) -> None:
        """Raises `FieldError` when fields that are valid on their own do not fit together."""

    @classmethod
    def key_names(cls) -> list[str]:
        """The section's keys, as a config has them."""
        return [field.name for field in dataclasses.fields(cls)]

    @classmethod
    def described(cls) -> str:
        """What a config must have here, in words that complete "expected ..."."""
        return f"a section with the keys {', '.join(cls.key_names())}"

    @classmethod
    def choose(cls, content: Mapping[str, Any]) -> type[Self]:
        """The class that `content` describes: this one, unless a subclass is chosen by one of the keys."""
        return cls


S = TypeVar("S", bound=Section)


def build(cls: type[S], content: Any, key: str = "", root: type[Section] | None = None) -> S:
    """Makes a section, and the sections in it, from the content of a YAML file.

    Args:
        cls: The section's class.
        content: The mapping that describes it.
        key: The dotted key of `content` in the config.
        root: The class of the whole config, which is searched for a misplaced key; by default `cls`.

    Raises:
        ConfigError: Anything in it is invalid; the text names the dotted key.
    """
    root = root or cls
    if not isinstance(content, Mapping):
        raise FieldError(key, f"expected {cls.described()}. Received: {shown(content)}")
    try:
        cls = cls.choose(content)
    except FieldError as error:
        raise error.within(key) from None
    _check_keys(cls, content, key, root)
    hints = _hints(cls)
    entries = {name: _build_entry(hints[name], value, dotted(key, name), root) for name, value in content.items()}
    try:
        return cls(**entries)
    except FieldError as error:
        raise error.within(key) from None


def _build_entry(hint: Any, value: Any, key: str, root: type[Section]) -> Any:
    """Turns mappings into sections where the annotation says so; wrong values are left to the section's own check."""
    if isinstance(hint, type) and issubclass(hint, Section):
        return build(hint, value, key, root)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType) and value is not None:
        for option in arguments:
            value = _build_entry(option, value, key, root)
    elif origin is Mapping and isinstance(value, Mapping):
        return {name: _build_entry(arguments[1], entry, dotted(key, str(name)), root) for name, entry in value.items()}
    return value


def _check_keys(cls: type[Section], content: Mapping[str, Any], key: str, root: type[Section]) -> None:
    for name in content:
        if name not in cls.key_names():
            raise FieldError(dotted(key, str(name)), _unknown(cls, str(name), content[name], key, root))
    hints = _hints(cls)
    for field in dataclasses.fields(cls):
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and field.name not in content:
            received = f"only {', '.join(map(str, content))}" if content else "no key at all"
            problem = f"this key is missing. Expected {describe(hints[field.name])}. Received: {received}"
            raise FieldError(dotted(key, field.name), problem)


def _unknown(cls: type[Section], name: str, value: Any, key: str, root: type[Section]) -> str:
    near = nearest(name, cls.key_names())
    places = [dotted(key, near)] if near else [place for place in _all_keys(root) if place.rpartition(".")[2] == name]
    hint = f"; did you mean {places[0]}?" if places else "."
    return f"unknown key{hint} Expected one of {', '.join(cls.key_names())}. Received: {shown(value)}"


def _all_keys(cls: type[Section], key: str = "") -> Iterator[str]:
    """Every dotted key at and below a section, in the order of the fields."""
    for name, hint in _hints(cls).items():
        yield dotted(key, name)
        for option in typing.get_args(hint) or (hint,):
            if isinstance(option, type) and issubclass(option, Section):
                yield from _all_keys(option, dotted(key, name))


def _hints(cls: type[Section]) -> dict[str, Any]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}
