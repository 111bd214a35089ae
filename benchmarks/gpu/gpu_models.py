"""What is trained on a GPU: three models, and the same smaller; imports neither TensorFlow nor PyTorch."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

from benchmarks.model_sizes import Perceptron, ResidualNet, Transformer

MODELS = ("mlp", "transformer", "resnet50")


@dataclass(frozen=True)
class GpuModel:
    """One model with its batches.

    Attributes:
        size: The model.
        batch: Samples of a global batch.
        steps: Steps of each of the windows that are timed, about a second on an H100.
        precision: The Keras dtype policy.
    """

    size: Perceptron | Transformer | ResidualNet
    batch: int
    steps: int
    precision: str = "float32"


def gpu_model(name: str, scale: int = 1) -> GpuModel:
    """A model of `MODELS`.

    Args:
        name: Its name.
        scale: What widths, lengths, blocks, batches and steps are divided by, to try a benchmark where there is no GPU.
    """

    def part(number: int, least: int = 1) -> int:
        return max(least, number // scale)

    if name == "mlp":
        return GpuModel(Perceptron(784, (part(512), part(512))), part(256, 2), part(400, 2))
    if name == "transformer":
        heads = part(8)
        size = Transformer(part(8000, 10), part(256, 2), heads * part(64, 2), heads, part(6))
        return GpuModel(size, part(64, 2), part(40, 2))
    return GpuModel(ResidualNet(part(224, 32), 3), part(128, 2), part(25, 2), "mixed_bfloat16")


@dataclass(frozen=True)
class TrainingSpec:
    """What a program that trains is told by its one argument.

    Attributes:
        model: A name of `MODELS`.
        scale: See `gpu_model`.
        windows: How many windows of steps are timed, one after another.
        workers: Processes that share the global batch, of those that do not find one another by tfdist.
        index: Which of them this is.
        compiles: Whether PyTorch compiles the model.
        folder: A folder that they share.
        seconds: How long they may wait for one another.
    """

    model: str
    scale: int = 1
    windows: int = 3
    workers: int = 1
    index: int = 0
    compiles: bool = False
    folder: str = ""
    seconds: float = 600.0

    def argument(self) -> str:
        """The program's one argument."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def parse(cls, argument: str) -> TrainingSpec:
        """What `argument` made."""
        return cls(**json.loads(argument))
