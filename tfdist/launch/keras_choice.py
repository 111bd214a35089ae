"""Which Keras the workers run: Keras 3 on TensorFlow, the only one that tfdist repairs."""

from __future__ import annotations

from collections.abc import Mapping

from tfdist.errors import UsageError

_BACKEND = "KERAS_BACKEND"
_LEGACY = "TF_USE_LEGACY_KERAS"
_TRUE = ("1", "true", "True")


def check(environ: Mapping[str, str]) -> None:
    """Checks what the environment asks for.

    Raises:
        UsageError: Another backend, or Keras 2.
    """
    backend = environ.get(_BACKEND)
    if backend and backend != "tensorflow":
        raise UsageError(
            f"{_BACKEND} is {backend}. Expected tensorflow, on which tfdist trains. Unset it, or train without tfdist."
        )
    if environ.get(_LEGACY) in _TRUE:
        raise UsageError(
            f"{_LEGACY} is {environ[_LEGACY]}, with which tf.keras is Keras 2. Expected Keras 3, which tfdist repairs. "
            "Unset it, or train without tfdist."
        )


def settings(environ: Mapping[str, str]) -> dict[str, str]:
    """What to add to a worker's environment: a backend from ~/.keras/keras.json is for processes that chose none.

    Args:
        environ: The environment that the worker would have.
    """
    return {} if environ.get(_BACKEND) else {_BACKEND: "tensorflow"}
