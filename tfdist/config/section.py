"""Base class of a config's sections: frozen dataclasses that check their fields by the annotations."""

from __future__ import annotations

import dataclasses
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from tfdist.config.field_errors import FieldError, dotted, nearest, one_error, shown

_WORDS = {
    type(None): "null",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    Any: "any value",
}
_DOTTED_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")


@dataclass(frozen=True)
class Rule:
    """A rule that a value must meet beyond its type; used in `Annotated`.

    Attributes:
        text: Completes "expected ...": `an integer of 1 or more`.
        test: Whether a value of the right type is valid.
        schema: The same in JSON schema, as far as that can say it.
    """

    text: str
    test: Callable[[Any], bool]
    schema: Mapping[str, Any] = field(default_factory=dict, compare=False)


PositiveInt = Annotated[int, Rule("an integer of 1 or more", lambda value: value >= 1, {"minimum": 1})]
Text = Annotated[str, Rule("a string that is not empty", bool, {"minLength": 1})]

DottedPath = Annotated[
    str,
    Rule(
        "a dotted path such as package.module.function",
        _DOTTED_PATH.fullmatch,
        {"pattern": f"^{_DOTTED_PATH.pattern}$"},
    ),
]


def matches(value: Any, hint: Any) -> bool:
    """Returns whether the annotation `hint` allows `value`.

    As in YAML, an integer is a number but `true` is neither, and a string is not a list.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        base, *rules = arguments
        return matches(value, base) and all(rule.test(value) for rule in rules)
    if origin in (typing.Union, types.UnionType):
        return any(matches(value, option) for option in arguments)
    if origin is Literal:
        return any(type(value) is type(option) and value == option for option in arguments)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            matches(key, arguments[0]) and matches(entry, arguments[1]) for key, entry in value.items()
        )
    if origin is Sequence:
        return isinstance(value, list | tuple) and all(matches(entry, arguments[0]) for entry in value)
    return _is_plain(value, hint)


def _is_plain(value: Any, hint: Any) -> bool:
    if hint is Any:
        return True
    if hint is float:
        # An integer may be larger than any float; NaN and infinities do not count as numbers here.
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def describe(hint: Any) -> str:
    """Returns what the annotation `hint` allows, in words that complete "expected ..."."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return arguments[-1].text
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe(option) for option in arguments)
    if origin is Literal:
        choices = ", ".join(str(option) for option in arguments)
        return f"one of {choices}" if len(arguments) > 1 else choices
    if origin is Mapping:
        return f"a mapping of {_plural(arguments[0])} to {_plural(arguments[1])}"
    if origin is Sequence:
        return f"a list of {_plural(arguments[0])}"
    return _WORDS[hint] if hint in _WORDS else hint.described()


def _plural(hint: Any) -> str:
    words = {str: "strings", int: "integers", float: "numbers", Any: "values"}
    return words[hint] if hint in words else f"entries that are each {describe(hint)}"


@dataclass(frozen=True, kw_only=True)
class Section:
    """Base of every section. A subclass declares its fields; their annotations define what is allowed.

    Raises:
        ConfigError: A field has a wrong type or an impossible value.
    """

    ELSEWHERE: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Names that Keras calls otherwise, or has elsewhere than this section -> what to write instead."""

    def __post_init__(self) -> None:
        for name, hint in hints_of(type(self)).items():
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
        """Returns what a config must have here, in words that complete "expected ..."."""
        return f"a section with the keys {', '.join(cls.key_names())}"

    @classmethod
    def choose(cls, content: Mapping[str, Any]) -> type[Self]:
        """The class that `content` describes: this one, unless a subclass is chosen by one of the keys."""
        return cls


S = TypeVar("S", bound=Section)


def build(cls: type[S], content: Any, key: str = "") -> S:
    """Makes a section, and the sections in it, from the content of a YAML file.

    Args:
        content: The mapping that describes it.
        key: The dotted key of `content` in the config.

    Raises:
        FieldError: One key in it is invalid; the text names the dotted key.
        FieldErrors: Several are.
    """
    builder = _Builder(cls)
    made = builder.section(cls, content, key)
    if made is None:
        raise one_error(builder.problems)
    return made


def build_parts(cls: type[Section], content: Any) -> tuple[dict[str, Any], list[FieldError]]:
    """Makes what it can of the content of a YAML file.

    Returns:
        The values of all dotted keys that are valid, sections and defaults among them, with the whole under the empty
        key; and what is wrong with the others.
    """
    builder = _Builder(cls)
    builder.section(cls, content, "")
    return builder.valid, builder.problems


class _Builder:
    """Makes sections, and collects what is wrong with them.

    Args:
        root: The class of the whole config, which is searched for a misplaced key.
    """

    def __init__(self, root: type[Section]) -> None:
        self._root = root
        self.problems: list[FieldError] = []
        self.valid: dict[str, Any] = {}

    def section(self, cls: type[S], content: Any, key: str) -> S | None:
        """The section that `content` describes; None where it is not valid."""
        before = len(self.problems)
        if not isinstance(content, Mapping):
            self._add(FieldError(key, f"expected {cls.described()}. Received: {shown(content)}"))
            return None
        try:
            cls = cls.choose(content)
            entries = self._valid_entries(cls, content, key)
            if len(self.problems) > before:
                return None
            made = self.valid[key] = cls(**entries)
            return made
        except FieldError as error:
            self._add(error.within(key))
            return None

    def _valid_entries(self, cls: type[Section], content: Mapping[str, Any], key: str) -> dict[str, Any]:
        """The values of a section that are valid on their own, by key, with the defaults of those left out."""
        self.problems += _problems_of_keys(cls, content, key, self._root)
        hints = hints_of(cls)
        valid: dict[str, Any] = {}
        for name, value in content.items():
            if name in hints:
                self._add_entry(valid, name, hints[name], value, dotted(key, str(name)))
        for each in dataclasses.fields(cls):
            if each.name in content:
                continue
            if each.default is not dataclasses.MISSING:
                valid[each.name] = each.default
            elif each.default_factory is not dataclasses.MISSING:
                valid[each.name] = each.default_factory()
        self.valid |= {dotted(key, name): value for name, value in valid.items()}
        return valid

    def _add_entry(self, valid: dict[str, Any], name: str, hint: Any, value: Any, key: str) -> None:
        before = len(self.problems)
        made = self._entry(hint, value, key)
        if len(self.problems) > before:
            return
        if matches(made, hint):
            valid[name] = made
        else:
            self._add(FieldError(key, f"expected {describe(hint)}. Received: {shown(value)}"))

    def _entry(self, hint: Any, value: Any, key: str) -> Any:
        """Turns mappings into sections where the annotation says so; other values stay as they are."""
        if isinstance(hint, type) and issubclass(hint, Section):
            return self.section(hint, value, key)
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType) and value is not None:
            for option in arguments:
                value = self._entry(option, value, key)
        elif origin is Mapping and isinstance(value, Mapping):
            return {name: self._entry(arguments[1], entry, dotted(key, str(name))) for name, entry in value.items()}
        return value

    def _add(self, error: FieldError) -> None:
        self.problems.append(error)


def _problems_of_keys(
    cls: type[Section], content: Mapping[str, Any], key: str, root: type[Section]
) -> Iterator[FieldError]:
    for name in content:
        if name not in cls.key_names():
            yield FieldError(dotted(key, str(name)), _unknown(cls, str(name), content[name], key, root))
    hints = hints_of(cls)
    for each in dataclasses.fields(cls):
        required = each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
        if required and each.name not in content:
            received = f"only {', '.join(map(str, content))}" if content else "no key at all"
            problem = f"this key is missing. Expected {describe(hints[each.name])}. Received: {received}"
            yield FieldError(dotted(key, each.name), problem)


def _unknown(cls: type[Section], name: str, value: Any, key: str, root: type[Section]) -> str:
    if name in cls.ELSEWHERE:
        return f"unknown key; {cls.ELSEWHERE[name]}. Received: {shown(value)}"
    near = nearest(name, cls.key_names())
    places = [dotted(key, near)] if near else [place for place in all_keys(root) if place.rpartition(".")[2] == name]
    hint = f"; did you mean {places[0]}?" if places else "."
    return f"unknown key{hint} Expected one of {', '.join(cls.key_names())}. Received: {shown(value)}"


def all_keys(cls: type[Section], key: str = "") -> Iterator[str]:
    """Every dotted key at and below a section, in the order of the fields."""
    for name, hint in hints_of(cls).items():
        yield dotted(key, name)
        for option in typing.get_args(hint) or (hint,):
            if isinstance(option, type) and issubclass(option, Section):
                yield from all_keys(option, dotted(key, name))


def hints_of(cls: type[Section]) -> dict[str, Any]:
    """The annotations of a section's keys."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {each.name: hints[each.name] for each in dataclasses.fields(cls)}
