"""Rules of type annotations: whether they allow a value, and how they are put into words."""

from __future__ import annotations

import re
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

_WORDS = {
    type(None): "null",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    Any: "any value",
}


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


_DOTTED_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")

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
