"""The `fit.distill` section of a config: a teacher, whose outputs a student learns besides the labels."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from tfdist.config.field_errors import FieldError, shown
from tfdist.config.section import Section
from tfdist.config.type_rules import DottedPath, Rule, Text, matches

_TEACHER = (
    "a run directory, a file MODEL.keras, {build: my.module.teacher, args: {...}}, {name: REGISTERED} with its "
    "arguments beside the name, or {outputs: DIR} of `tfdist data predict`"
)
_KINDS = ("build", "name", "outputs")


def _is_teacher(value: Mapping[str, Any]) -> bool:
    kinds = [kind for kind in _KINDS if kind in value]
    if kinds == ["build"]:
        arguments = value.get("args", {})
        return value.keys() <= {"build", "args"} and matches(value["build"], DottedPath) and _is_mapping(arguments)
    return (kinds == ["name"] and matches(value["name"], Text)) or (
        kinds == ["outputs"] and len(value) == 1 and matches(value["outputs"], Text)
    )


def _is_mapping(value: Any) -> bool:
    return matches(value, Mapping[str, Any])


_SCHEMA = {
    "oneOf": [
        {
            "required": ["build"],
            "properties": {
                "build": {"type": "string", "pattern": typing.get_args(DottedPath)[1].schema["pattern"]},
                "args": {"type": "object"},
            },
            "additionalProperties": False,
        },
        {"required": ["name"], "properties": {"name": {"type": "string", "minLength": 1}}},
        {
            "required": ["outputs"],
            "properties": {"outputs": {"type": "string", "minLength": 1}},
            "additionalProperties": False,
        },
    ]
}

Teacher = Annotated[Text | Annotated[Mapping[str, Any], Rule("", _is_teacher, _SCHEMA)], Rule(_TEACHER, bool)]
"""The source of a teacher, or of what it has said of the samples."""


@dataclass(frozen=True, kw_only=True)
class DistillConfig(Section):
    """Distillation: the model learns the outputs of a teacher, softened by a temperature, besides the labels.

    Attributes:
        teacher: A run directory, a file MODEL.keras, `{build: my.module.teacher, args: {...}}`, `{name: ...}` of what
            `keras.saving.register_keras_serializable` has registered, or `{outputs: DIR}`: what `tfdist data predict`
            has kept of a teacher.
        checkpoint: Of a run directory: `best`, `latest`, a checkpoint's name or its step; null for its trained model.
        temperature: By which the logits of both are divided.
        alpha: How much the teacher counts: the loss is `(1 - alpha)` of `compile.loss` and `alpha` of the divergence
            from the teacher, times `temperature` squared.
        teacher_gives: Whether the teacher's outputs are `logits` or `probabilities`; `auto` looks at its last layers.
    """

    teacher: Teacher
    checkpoint: Text | None = None
    temperature: Annotated[float, Rule("a number above 0", lambda value: value > 0, {"exclusiveMinimum": 0})] = 2.0
    alpha: Annotated[
        float, Rule("a number from 0 to 1", lambda value: 0 <= value <= 1, {"minimum": 0, "maximum": 1})
    ] = 0.5
    teacher_gives: Literal["auto", "logits", "probabilities"] = "auto"

    def check(self) -> None:
        if self.checkpoint is not None and not isinstance(self.teacher, str):
            raise FieldError(
                "checkpoint", f"expected it beside a run directory as teacher. Received: {shown(self.checkpoint)}"
            )

    @property
    def outputs(self) -> str | None:
        """The folder of the teacher's kept outputs; None where the teacher itself computes them."""
        folder: str | None = None if isinstance(self.teacher, str) else self.teacher.get("outputs")
        return folder
