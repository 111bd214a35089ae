"""The names of `sharded_models`, for programs that do without Keras."""

from __future__ import annotations

from dataclasses import dataclass

STACKS = {"10M": (1024, 10), "50M": (1024, 48), "100M": (2048, 24), "700M": (4096, 42)}
"""Name -> width and number of the layers."""



@dataclass(frozen=True)
class Blocks:
    """Transformer blocks: attention and a feed-forward network four times as wide, each after a normalization.

    Attributes:
        width: Of the rows between blocks.
        heads: Of each attention.
        layers: How many blocks.
        batch: Samples of a step, of all workers.
        tokens: Rows of a sample.
    """

    width: int
    heads: int
    layers: int
    batch: int
    tokens: int


BLOCKS = {
    "small-blocks": Blocks(128, 4, 2, 4, 16),
    "blocks": Blocks(1024, 16, 8, 8, 256),
    "long-blocks": Blocks(512, 8, 4, 1, 2048),
}
"""Name -> sizes. The small ones take a moment, and are what a process trains before the others are measured."""

GPT2 = "gpt2"
"""124 million parameters from its config, with random weights: nothing is downloaded."""

NAMES = (*STACKS, *BLOCKS, GPT2)
