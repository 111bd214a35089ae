"""Which Keras the workers run: Keras 3 on TensorFlow, the only one that tfdist repairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tfdist.errors import UsageError

_BACKEND = "KERAS_BACKEND"
_LEGACY = "TF_USE_LEGACY_KERAS"
_TRUE = ("1", "true", "True")


class KerasObjection(NamedTuple):
    """A variable that asks for another Keras.

    Attributes:
        name: What it is about, in two words.
        variable: Its name.
        text: What it does, and what is expected.
    """

    name: str
    variable: str
    text: str


def keras_objections(environ: Mapping[str, str]) -> list[KerasObjection]:
    """What the environment asks for and does not get."""
    found = []
    if environ.get(_LEGACY) in _TRUE:
        value = environ[_LEGACY]
        text = f"{_LEGACY} is {value}, with which tf.keras is Keras 2. Expected Keras 3, which tfdist repairs"
        found.append(KerasObjection("legacy Keras", _LEGACY, text))
    if environ.get(_BACKEND, "") not in ("", "tensorflow"):
        text = f"{_BACKEND} is {environ[_BACKEND]}. Expected tensorflow, on which tfdist trains"
        found.append(KerasObjection("Keras backend", _BACKEND, text))
    return found


def check_keras_choice(environ: Mapping[str, str]) -> None:
    """Checks what the environment asks for.

    Raises:
        UsageError: Another backend, or Keras 2.
    """
    for _, variable, text in keras_objections(environ):
        raise UsageError(f"{text}. Unset {variable}, or train without tfdist.")


def keras_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """What to add to a worker's environment: a backend from ~/.keras/keras.json is for processes that chose none.

    Args:
        environ: The environment that the worker would have.
    """
    return {} if environ.get(_BACKEND) else {_BACKEND: "tensorflow"}
