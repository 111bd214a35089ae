"""Environment variables with which a training would be wrong, so that it is refused.

No environment is read here, so the doctor can ask what a run would be refused for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tfdist.errors import UsageError

_BACKEND = "KERAS_BACKEND"
_LEGACY = "TF_USE_LEGACY_KERAS"
_TRUE = ("1", "true", "True")

_FROZEN = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"
_TRUE_IN_ANY_CASE = ("1", "true")
"""As TensorFlow reads its own variables, whatever the case."""


class VariableObjection(NamedTuple):
    """A variable with which a training would be wrong.

    Attributes:
        name: What it is about, in two words.
        variable: Its name.
        text: What it does, and what is expected.
    """

    name: str
    variable: str
    text: str


def objections(environ: Mapping[str, str]) -> list[VariableObjection]:
    """The variables of `environ` with which a training would be wrong."""
    found = []
    if environ.get(_LEGACY) in _TRUE:
        value = environ[_LEGACY]
        text = f"{_LEGACY} is {value}, with which tf.keras is Keras 2. Expected Keras 3, which tfdist repairs"
        found.append(VariableObjection("legacy Keras", _LEGACY, text))
    if environ.get(_BACKEND, "") not in ("", "tensorflow"):
        text = f"{_BACKEND} is {environ[_BACKEND]}. Expected tensorflow, on which tfdist trains"
        found.append(VariableObjection("Keras backend", _BACKEND, text))
    if environ.get(_FROZEN, "").lower() in _TRUE_IN_ANY_CASE:
        text = (
            f"{_FROZEN} is {environ[_FROZEN]}, with which oneDNN's layers compute on with the weights of the first "
            "step, whatever the training makes of them. Expected that in inference alone"
        )
        found.append(VariableObjection("frozen weights", _FROZEN, text))
    return found


def check_objections(environ: Mapping[str, str]) -> None:
    """Refuses an environment with which a training would be wrong.

    Raises:
        UsageError: It asks for another backend than TensorFlow, for Keras 2, or for weights that never change.
    """
    for _, variable, text in objections(environ):
        raise UsageError(f"{text}. Unset {variable}.")
