"""Small transformers of KerasHub with dropout, built from their configs: nothing is downloaded.

They stand beside the table, as KerasHub is no part of what the tests install. As a script it writes their outcomes:
`python -m tests.exactness.keras_hub_cases OUT SAMPLES [NAME ...]`, see `tests.exactness`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import keras
import keras_hub
import numpy as np

from tests.exactness.__main__ import write_outcomes
from tests.exactness.table import FLOAT64, Case, fitted, outcome_of

WORDS, LENGTH = 50, 12
_SIZES = {"vocabulary_size": WORDS, "num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32,
          "max_sequence_length": LENGTH, "dropout": 0.1}  # fmt: skip


def texts(samples: int, length: int = LENGTH) -> tuple[np.ndarray, np.ndarray]:
    """Words and what of them is no padding, both [samples, length], of very different lengths."""
    generator = np.random.default_rng(5)
    is_word = np.arange(length) < generator.integers(2, length + 1, samples)[:, None]
    return np.where(is_word, generator.integers(1, WORDS, (samples, length)), 0), is_word


def bert_classifier(samples: int) -> dict[str, Any]:
    words, is_word = texts(samples)
    backbone = keras_hub.models.BertBackbone(**_SIZES)
    model = keras_hub.models.BertTextClassifier(backbone, num_classes=3, dropout=0.1)
    x = {"token_ids": words, "segment_ids": np.zeros_like(words), "padding_mask": is_word.astype("int32")}
    return fitted(model, x, words.sum(axis=1) % 3, _compiled(metrics=["accuracy"]))


def gpt2(samples: int) -> dict[str, Any]:
    """Predicts the next word, where there is one."""
    words, is_word = texts(samples, LENGTH + 1)
    model = keras_hub.models.GPT2CausalLM(keras_hub.models.GPT2Backbone(**_SIZES))
    x = {"token_ids": words[:, :-1], "padding_mask": is_word[:, :-1].astype("int32")}
    weights = is_word[:, 1:].astype("float64")
    return fitted(model, x, words[:, 1:], _compiled(weighted_metrics=["accuracy"]), sample_weight=weights)


def encoder_and_decoder_layers(samples: int) -> dict[str, Any]:
    words, _ = texts(samples)
    given = keras.Input((LENGTH,), dtype="int32")
    hidden = keras_hub.layers.TokenAndPositionEmbedding(WORDS, LENGTH, 16, mask_zero=True)(given)
    hidden = keras_hub.layers.TransformerEncoder(32, 2, dropout=0.1)(hidden)
    hidden = keras_hub.layers.TransformerDecoder(32, 2, dropout=0.1)(hidden)
    logits = keras.layers.Dense(3)(keras.layers.GlobalAveragePooling1D()(hidden))
    return fitted(keras.Model(given, logits), words, words.sum(axis=1) % 3, _compiled(metrics=["accuracy"]))


def _compiled(**options: Any) -> dict[str, Any]:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return {"optimizer": keras.optimizers.Adam(0.01), "loss": loss, **options}


_MAKES: tuple[Callable[[int], dict[str, Any]], ...] = (bert_classifier, gpt2, encoder_and_decoder_layers)
HUB_CASES = {make.__name__: Case(make.__name__, make.__name__, make, FLOAT64) for make in _MAKES}


def main(out: str, samples: str, *names: str) -> None:
    write_outcomes(out, names or tuple(HUB_CASES), lambda name: outcome_of(HUB_CASES[name], int(samples)))


if __name__ == "__main__":
    main(*sys.argv[1:])
