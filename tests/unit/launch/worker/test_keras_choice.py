"""Workers run Keras 3 on TensorFlow, whatever keras.json says; who asks for another Keras is told."""

from __future__ import annotations

import pytest

from tests.unit.launch.test_environment import ALONE
from tfdist.errors import UsageError
from tfdist.launch.worker.keras_choice import check_keras_choice


@pytest.mark.parametrize(
    "environ",
    [{}, {"KERAS_BACKEND": ""}, {"KERAS_BACKEND": "tensorflow"}, {"TF_USE_LEGACY_KERAS": "0"}],
)
def test_keras_3_on_tensorflow_is_what_workers_get(environ: dict[str, str]) -> None:
    check_keras_choice(environ)
    assert ALONE.to_environ(environ)["KERAS_BACKEND"] == "tensorflow"


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"KERAS_BACKEND": "jax"}, "KERAS_BACKEND is jax. Expected tensorflow"),
        ({"TF_USE_LEGACY_KERAS": "1"}, "TF_USE_LEGACY_KERAS is 1, with which tf.keras is Keras 2. Expected Keras 3"),
    ],
)
def test_another_keras_is_refused(environ: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        check_keras_choice(environ)
