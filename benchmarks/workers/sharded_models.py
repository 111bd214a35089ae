"""Models by name: stacks of Dense layers, whose weights take more memory than their samples, blocks, and GPT-2."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from benchmarks.workers.sharded_names import BLOCKS, GPT2, STACKS, Blocks

_WORDS, _LENGTH = 50257, 64


def batch_size(name: str) -> int:
    """Samples of a step, of all workers: few, so that memory is that of the weights."""
    if name in BLOCKS:
        return BLOCKS[name].batch
    return 2 if name == GPT2 else 16


def build(name: str) -> keras.Model:
    """A compiled model."""
    if name == GPT2:
        return _gpt2(_WORDS, 12, 768)
    if name in BLOCKS:
        return _blocks(BLOCKS[name])
    return _stack(*STACKS[name])


def build_small(name: str) -> tuple[keras.Model, str]:
    """One of the same layers, with next to no weights of its own, and the name of the model whose samples it takes."""
    if name == GPT2:
        return _gpt2(_WORDS, 1, 8), name
    if name in BLOCKS:
        return build("small-blocks"), "small-blocks"
    width, _ = STACKS[name]
    return _stack(width, 1, units=8), name


def data(name: str, samples: int) -> tuple[Any, Any]:
    """Inputs and labels, the same in every process.

    Inputs are float32 [samples, width], of blocks [samples, tokens, width]; of GPT-2 int32 words [samples, 64].
    """
    generator = np.random.default_rng(1)
    if name == GPT2:
        words = generator.integers(0, _WORDS, (samples, _LENGTH + 1), "int32")
        x = {"token_ids": words[:, :-1], "padding_mask": np.ones((samples, _LENGTH), "int32")}
        return x, words[:, 1:]
    shape = (BLOCKS[name].tokens, BLOCKS[name].width) if name in BLOCKS else STACKS[name][:1]
    x = generator.normal(size=(samples, *shape)).astype("float32")
    return x, generator.integers(0, 3, samples)


def _stack(width: int, layers: int, units: int | None = None) -> keras.Model:
    hidden = [keras.layers.Dense(units or width, "gelu", use_bias=False) for _ in range(layers)]
    model = keras.Sequential([keras.Input((width,)), *hidden, keras.layers.Dense(3, "softmax")])
    model.compile(keras.optimizers.Adam(1e-5), "sparse_categorical_crossentropy")
    return model


def _blocks(sizes: Blocks) -> keras.Model:
    layers = keras.layers
    x = inputs = keras.Input((sizes.tokens, sizes.width))
    for _ in range(sizes.layers):
        y = layers.LayerNormalization()(x)
        x = layers.add([x, layers.MultiHeadAttention(sizes.heads, sizes.width // sizes.heads)(y, y)])
        y = layers.Dense(4 * sizes.width, "gelu")(layers.LayerNormalization()(x))
        x = layers.add([x, layers.Dense(sizes.width)(y)])
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    model = keras.Model(inputs, layers.Dense(3, "softmax")(x))
    model.compile(keras.optimizers.Adam(1e-5), "sparse_categorical_crossentropy")
    return model


def _gpt2(words: int, layers: int, width: int) -> keras.Model:
    import keras_hub

    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=words, num_layers=layers, num_heads=max(1, width // 64), hidden_dim=width,
        intermediate_dim=4 * width, dropout=0.1, max_sequence_length=1024,
    )  # fmt: skip
    model = keras_hub.models.GPT2CausalLM(backbone)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-5), loss)
    return model
