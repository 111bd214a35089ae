"""The models of `benchmarks.models` in PyTorch, with its own layers and layout, and random data of their shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks import model_sizes
from benchmarks.model_sizes import SIZES, ConvolutionalNet, EmbeddingBag, ModelSize, Perceptron, Transformer


def build(name: str) -> nn.Module:
    """A network from samples to logits [k, 10]."""
    return build_of(SIZES[name])


def build_of(size: ModelSize) -> nn.Module:
    """The same of a size.

    Raises:
        KeyError: It is ResNet50, which PyTorch itself has not.
    """
    return _NETWORKS[type(size)](size)


def optimizer(network: nn.Module) -> torch.optim.Optimizer:
    """SGD with momentum, as for every contestant."""
    return torch.optim.SGD(network.parameters(), lr=model_sizes.LEARNING_RATE, momentum=model_sizes.MOMENTUM)


def data(name: str, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples (float32 numbers or int32 words) and int64 labels below 10, the only type that PyTorch's loss takes."""
    return data_of(SIZES[name], samples)


def data_of(size: ModelSize, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The same for a model of a size."""
    words = model_sizes.vocabulary(size)
    shape = model_sizes.sample_shape(size)
    if isinstance(size, ConvolutionalNet):
        shape = (size.channels, size.side, size.side)
    x = torch.randn(samples, *shape)
    if words is not None:
        x = torch.randint(0, words, (samples, *shape), dtype=torch.int32)
    return x, torch.randint(0, model_sizes.CLASSES, (samples,))


def _perceptron(size: Perceptron) -> nn.Module:
    widths = [size.inputs, *size.hidden]
    layers = [layer for i, units in enumerate(size.hidden) for layer in (nn.Linear(widths[i], units), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(widths[-1], model_sizes.CLASSES))


def _convolutions(size: ConvolutionalNet) -> nn.Module:
    layers: list[nn.Module] = []
    channels = [size.channels, *size.filters]
    for before, after in zip(channels, size.filters, strict=False):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    side = size.side // 2 ** len(size.filters)
    layers += [nn.Flatten(), nn.Linear(side * side * channels[-1], size.hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(size.hidden, model_sizes.CLASSES))


class _TransformerNet(nn.Module):
    def __init__(self, size: Transformer) -> None:
        super().__init__()
        self.words = nn.Embedding(size.vocabulary, size.width)
        self.places = nn.Parameter(torch.empty(size.length, size.width).uniform_(-0.05, 0.05))
        blocks = [
            nn.TransformerEncoderLayer(
                size.width, size.heads, 4 * size.width, dropout=0.0, batch_first=True, norm_first=True
            )
            for _ in range(size.blocks)
        ]
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.LayerNorm(size.width)
        self.classes = nn.Linear(size.width, model_sizes.CLASSES)

    def forward(self, words: Any) -> Any:
        return self.classes(self.last(self.blocks(self.words(words) + self.places)).mean(1))


class _EmbeddingNet(nn.Module):
    def __init__(self, size: EmbeddingBag) -> None:
        super().__init__()
        self.words = nn.Embedding(size.vocabulary, size.width)
        layers = [nn.Linear(size.width, size.hidden), nn.ReLU(), nn.Linear(size.hidden, model_sizes.CLASSES)]
        self.rest = nn.Sequential(*layers)

    def forward(self, words: Any) -> Any:
        return self.rest(self.words(words).mean(1))


_NETWORKS: dict[type[ModelSize], Callable[[Any], nn.Module]] = {
    Perceptron: _perceptron,
    ConvolutionalNet: _convolutions,
    Transformer: _TransformerNet,
    EmbeddingBag: _EmbeddingNet,
}
