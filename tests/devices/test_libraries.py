"""Another backend of Keras is refused: its `fit` would train on each worker for itself."""

from __future__ import annotations

import keras
import pytest

from tfdist.errors import UsageError
from tfdist.training.libraries import check_libraries


def test_keras_on_tensorflow_is_taken() -> None:
    check_libraries()


def test_another_backend_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(UsageError, match="Keras runs on jax. Expected tensorflow"):
        check_libraries()
