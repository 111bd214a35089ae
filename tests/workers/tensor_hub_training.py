"""A small model of KerasHub, built from its config. Prints what it has trained, and how its weights are laid out."""

from __future__ import annotations

import json
import sys

import keras
import keras_hub
import numpy as np

WORDS = 1100
"""As many as an embedding is cut from."""

models = keras_hub.models
sizes = {"vocabulary_size": WORDS, "num_layers": 1, "hidden_dim": 128, "intermediate_dim": 256}
grouped = {"num_query_heads": 4, **sizes}
whole = {"num_heads": 4, "dropout": 0.1, "max_sequence_length": 16, **sizes}
MODELS = {
    "gpt2": lambda: models.GPT2CausalLM(models.GPT2Backbone(**whole), None),
    "llama": lambda: models.LlamaCausalLM(models.LlamaBackbone(num_key_value_heads=2, **grouped), None),
    "gemma": lambda: models.GemmaCausalLM(models.GemmaBackbone(num_key_value_heads=1, head_dim=32, **grouped), None),
    "bert": lambda: models.BertTextClassifier(models.BertBackbone(**whole), num_classes=3, preprocessor=None),
}
keras.config.set_floatx("float64")
keras.config.set_dtype_policy("float64")
keras.utils.set_random_seed(3)
model = MODELS[sys.argv[1]]()
rng = np.random.default_rng(0)
ids = rng.integers(1, WORDS, (65, 9))
x, y = {"token_ids": ids[:, :-1], "padding_mask": rng.integers(0, 2, (65, 8)) | (np.arange(8) < 3)}, ids[:, 1:]
if sys.argv[1] == "bert":
    x["segment_ids"], y = np.zeros((65, 8), "int32"), ids[:, 0] % 3
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.5), loss, weighted_metrics=[])
found = {"history": model.fit(x, y, batch_size=16, epochs=2, verbose=0).history}
found["predicted"] = np.ravel(model.predict(x, verbose=0))[:200].tolist()
found["weights"] = {weight.path: float(np.abs(np.asarray(weight)).sum()) for weight in model.weights}
found["stored"] = {weight.path: list(weight._value.shape) for weight in model.trainable_weights}
print(json.dumps(found))
