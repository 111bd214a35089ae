"""Objects of Keras in a config: how an optimizer, a loss, a metric or a callback is written.

There are three forms: a name, `adam`; a name with arguments, `{name: adam, learning_rate: 0.001}`; and what a dotted
path makes, `{build: my.module.Loss, args: {margin: 0.2}}`.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any

from tfdist.config.field_errors import FieldError, shown
from tfdist.config.section import DottedPath, Rule, Text, matches

FORMS = "a name, {name: NAME} with its arguments beside the name, or {build: my.module.Class, args: {...}}"


def _is_one_form(value: Mapping[str, Any]) -> bool:
    if "build" not in value:
        return matches(value.get("name"), Text)
    arguments = value.get("args", {})
    return value.keys() <= {"build", "args"} and matches(value["build"], DottedPath) and _is_mapping(arguments)


def _is_mapping(value: Any) -> bool:
    return matches(value, Mapping[str, Any])


_IS_OBJECT = {"anyOf": [{"required": ["build"]}, {"required": ["name"], "properties": {"name": {"type": "string"}}}]}
_FORMS_SCHEMA = {
    "if": {"required": ["build"]},
    "then": {
        "properties": {
            "build": {"type": "string", "pattern": typing.get_args(DottedPath)[1].schema["pattern"]},
            "args": {"type": "object"},
        },
        "additionalProperties": False,
    },
    "else": {"required": ["name"], "properties": {"name": {"type": "string", "minLength": 1}}},
}

KerasObject = Annotated[
    Text | Annotated[Mapping[str, Any], Rule("", _is_one_form, _FORMS_SCHEMA)],
    Rule(FORMS, bool),
]
"""One object of Keras, in any of the three forms."""


def is_object(value: Any) -> bool:
    """Returns whether a mapping is an object of Keras rather than a mapping of outputs to objects."""
    return isinstance(value, Mapping) and ("build" in value or isinstance(value.get("name"), str))


_FILLED = {"minLength": 1, "minItems": 1, "minProperties": 1}

Losses = Annotated[
    KerasObject
    | Sequence[KerasObject]
    | Annotated[Mapping[str, KerasObject], Rule("", lambda value: not is_object(value), {"not": _IS_OBJECT})],
    Rule(f"a loss: {FORMS}; for several outputs a list of losses, or a mapping of output to loss", len, _FILLED),
]
"""The loss of a model, or those of its outputs."""

Metrics = Annotated[
    Sequence[KerasObject]
    | Annotated[
        Mapping[str, KerasObject | Sequence[KerasObject]],
        Rule("", lambda value: not is_object(value), {"not": _IS_OBJECT}),
    ],
    Rule(
        f"a list of metrics, each {FORMS}; for several outputs a mapping of output to such a list", lambda value: True
    ),
]
"""The metrics of a model, or of each of its outputs."""


_Range = tuple[float, float, str]
_FRACTION: _Range = (0.0, math.nextafter(1.0, 0.0), "a number of 0 or more and below 1")
_SHARE: _Range = (0.0, 1.0, "a number from 0 to 1")
_NOT_NEGATIVE: _Range = (0.0, math.inf, "a number of 0 or more")
_POSITIVE: _Range = (math.nextafter(0.0, 1.0), math.inf, "a number above 0")

_OPTIMIZER_RANGES: Mapping[str, _Range] = MappingProxyType(
    {
        "learning_rate": _NOT_NEGATIVE,
        "beta_1": _FRACTION,
        "beta_2": _FRACTION,
        "rho": _FRACTION,
        "momentum": _SHARE,
        "ema_momentum": _SHARE,
        "epsilon": _NOT_NEGATIVE,
        "weight_decay": _NOT_NEGATIVE,
        "clipnorm": _POSITIVE,
        "clipvalue": _POSITIVE,
        "global_clipnorm": _POSITIVE,
        "gradient_accumulation_steps": (2, math.inf, "an integer of 2 or more, or null for none"),
    }
)
_WHOLE = ("gradient_accumulation_steps",)


def _range_schema(name: str) -> dict[str, Any]:
    lowest, highest, _ = _OPTIMIZER_RANGES[name]
    if name in _WHOLE:
        return {"anyOf": [{"type": "integer", "minimum": lowest}, {"type": "null"}]}
    return {"minimum": lowest, **({} if math.isinf(highest) else {"maximum": highest})}


Optimizer = Annotated[
    KerasObject,
    Rule(
        FORMS,
        bool,
        # An optimizer of the user's own takes its arguments in `args`.
        {"properties": {name: _range_schema(name) for name in _OPTIMIZER_RANGES}},
    ),
]
"""An optimizer, whose arguments `check_optimizer` checks further."""


def check_optimizer(value: str | Mapping[str, Any]) -> None:
    """Checks the values of an optimizer's arguments that are out of range for every optimizer of Keras.

    Raises:
        FieldError: One is; the key begins at the optimizer.
    """
    if isinstance(value, str) or "build" in value:
        return
    rate = value.get("learning_rate")
    if isinstance(rate, Mapping) and not (is_object(rate) and _is_one_form(rate)):
        expected = "a number, or a schedule such as {name: cosine_decay, initial_learning_rate: 0.1, decay_steps: 1000}"
        raise FieldError("learning_rate", f"expected {expected}. Received: {shown(rate)}")
    for name, (lowest, highest, words) in _OPTIMIZER_RANGES.items():
        given = value.get(name)
        if given is None or isinstance(given, str | Mapping):
            continue
        is_number = matches(given, int if name in _WHOLE else float)
        if not is_number or not lowest <= given <= highest:
            raise FieldError(name, f"expected {words}. Received: {shown(given)}")
    clips = [name for name in ("clipnorm", "clipvalue", "global_clipnorm") if value.get(name) is not None]
    if len(clips) > 1:
        raise FieldError(clips[1], f"expected one way to clip gradients. Received: {' and '.join(clips)}")
