from __future__ import annotations

import math

import pytest

from benchmarks import models


@pytest.mark.parametrize("name", models.NAMES)
def test_every_model_takes_its_data(name: str) -> None:
    x, y = models.data(name, 2)
    model = models.build(name)
    assert x.shape == (2, *models.shape(name))
    assert math.isfinite(model.train_on_batch(x, y)[0])
