"""What one replica makes of a case: computed once for all tests that compare with it."""

from __future__ import annotations

import functools
from typing import Any

from tests.exactness.cases import outcome
from tfdist import keras_repairs


@functools.cache
def of_one_replica(name: str, samples: int, *, of_training_alone: bool = False) -> dict[str, Any]:
    """The outcome of a case under TensorFlow's default strategy. Do not change it."""
    keras_repairs.install()
    return outcome(name, samples, of_training_alone=of_training_alone)
