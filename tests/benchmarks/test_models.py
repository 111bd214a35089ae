from __future__ import annotations

import math

import pytest

from benchmarks import models

PARAMETERS = {"mlp": 669_706, "wide": 24_449_034, "cnn": 620_362, "transformer": 658_186, "embedding": 6_409_610}


@pytest.mark.parametrize("name", models.NAMES)
def test_every_model_takes_its_data(name: str) -> None:
    x, y = models.data(name, 2)
    model = models.build(name)
    assert x.shape == (2, *models.shape(name))
    assert model.count_params() == PARAMETERS[name]
    assert math.isfinite(model.train_on_batch(x, y)[0])


def test_batches_lie_in_memory_and_come_again() -> None:
    found = [x for x, _ in models.batches("mlp", 2).take(9)]
    assert found[0].shape == (2, 784)
    assert (found[8].numpy() == found[0].numpy()).all()


def test_pytorch_has_the_same_models() -> None:
    torch = pytest.importorskip("torch")
    from benchmarks.workers import torch_models

    for name in models.NAMES:
        network = torch_models.build(name)
        assert sum(parameter.numel() for parameter in network.parameters()) == PARAMETERS[name]
        x, y = torch_models.data(name, 2)
        assert math.isfinite(torch.nn.CrossEntropyLoss()(network(x), y).item())
