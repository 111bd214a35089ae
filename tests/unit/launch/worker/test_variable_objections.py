"""Variables with which a training would be wrong."""

from __future__ import annotations

import pytest

from tfdist.errors import UsageError
from tfdist.launch.worker.variable_objections import check_objections

FROZEN = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"KERAS_BACKEND": ""},
        {"KERAS_BACKEND": "tensorflow"},
        {"TF_USE_LEGACY_KERAS": "0"},
        {FROZEN: "0"},
        {FROZEN: "false"},
        {FROZEN: ""},
    ],
)
def test_nothing_is_wrong(environ: dict[str, str]) -> None:
    check_objections(environ)


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"KERAS_BACKEND": "jax"}, "KERAS_BACKEND is jax. Expected tensorflow"),
        ({"TF_USE_LEGACY_KERAS": "1"}, "TF_USE_LEGACY_KERAS is 1, with which tf.keras is Keras 2. Expected Keras 3"),
        ({FROZEN: "1"}, f"{FROZEN} is 1, with which .* Unset {FROZEN}"),
        ({FROZEN: "TRUE"}, f"{FROZEN} is TRUE"),
    ],
)
def test_what_is_wrong_is_refused(environ: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        check_objections(environ)
