"""A small model of KerasHub, built from its config.

Prints what it has trained, predicted and generated, how its weights are laid out, and which of them a step gathered.

Run with the model's name, the number of samples, and the size of the mesh's batch axis where the model is laid out by
the map of its class; 0 leaves layouts to `--tensor`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import keras
import keras_hub
import numpy as np
from keras import ops

from tfdist.keras_repairs.sharded_parameters import axis_weights

WORDS = 1100
"""As many as an embedding is cut from."""

models = keras_hub.models
sizes = {"vocabulary_size": WORDS, "num_layers": 1, "hidden_dim": 128, "intermediate_dim": 256, "dropout": 0.1}
whole = {"num_heads": 4, **sizes}
bounded = {"max_sequence_length": 16, **whole}
grouped = {"num_query_heads": 4, "num_key_value_heads": 2, **sizes}
gemma = {**grouped, "head_dim": 32, "attention_logit_soft_cap": 20.0, "final_logit_soft_cap": 30.0}
gemma3 = {**grouped, "head_dim": 32, "image_size": None, "use_sliding_window_attention": True, "sliding_window_size": 4}
classes = {"num_classes": 3, "preprocessor": None}

MODELS = {
    "gpt2": lambda: models.GPT2CausalLM(models.GPT2Backbone(**bounded), None),
    "llama": lambda: models.LlamaCausalLM(models.LlamaBackbone(**grouped), None),
    "llama3": lambda: models.Llama3CausalLM(models.Llama3Backbone(**grouped, tie_word_embeddings=True), None),
    "gemma": lambda: models.GemmaCausalLM(models.GemmaBackbone(**gemma), None),
    "gemma3": lambda: models.Gemma3CausalLM(None, models.Gemma3Backbone(**{**gemma3, "num_layers": 2})),
    "mistral": lambda: models.MistralCausalLM(models.MistralBackbone(**grouped, sliding_window=4), None),
    "phi3": lambda: models.Phi3CausalLM(models.Phi3Backbone(**grouped), None),
    "qwen": lambda: models.QwenCausalLM(models.QwenBackbone(**grouped), None),
    "qwen3": lambda: models.Qwen3CausalLM(models.Qwen3Backbone(**grouped, head_dim=32), None),
    "bert": lambda: models.BertTextClassifier(models.BertBackbone(**bounded), **classes),
    "bert_masked": lambda: models.BertMaskedLM(models.BertBackbone(**bounded), None),
    "roberta": lambda: models.RobertaTextClassifier(models.RobertaBackbone(**bounded), **classes),
    "roberta_masked": lambda: models.RobertaMaskedLM(models.RobertaBackbone(**bounded), None),
    "t5": lambda: models.T5Seq2SeqLM(models.T5Backbone(**whole), None),
    "bart": lambda: models.BartSeq2SeqLM(models.BartBackbone(**bounded), None),
}
MAPS = {"llama": models.LlamaBackbone, "gemma": models.GemmaBackbone, "qwen": models.QwenBackbone}

IN_FLOAT32 = ("mistral", "t5")
"""Of these KerasHub subtracts places of 32 bits from others of as many bits as `floatx` has."""


class Cached(keras.Model):
    """The scores of the last place of a prompt, with the keys and values of those before it in a cache."""

    def __init__(self, generating: Any) -> None:
        super().__init__()
        self.generating = generating

    def call(self, ids: Any) -> Any:
        of_images = (None, None, ops.ones_like(ids), None) if isinstance(self.generating, models.Gemma3CausalLM) else ()
        _, cache = self.generating._build_cache(ids, *of_images)
        return self.generating.call_with_cache(ids[:, -1:], cache, ids.shape[1] - 1)[0]


def distribute(name: str, groups: int) -> None:
    """Has weights laid out by the map of a model's class."""
    devices = keras.distribution.list_devices()
    mesh = keras.distribution.DeviceMesh((groups, len(devices) // groups), ["batch", "model"], devices)
    layout = MAPS[name].get_layout_map(mesh)
    keras.distribution.set_distribution(keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch"))


def trained(model: Any, samples: int) -> dict[str, Any]:
    """What a model has trained and computed, by names."""
    rng = np.random.default_rng(0)
    ids = rng.integers(1, WORDS, (samples, 9))
    padding = rng.integers(0, 2, (samples, 8)) | (np.arange(8) < 3)
    inputs = {"segment_ids": np.zeros((samples, 8), "int32"), "mask_positions": np.tile([1, 4], (samples, 1))}
    for part in ("", "encoder_", "decoder_"):
        inputs[f"{part}token_ids"], inputs[f"{part}padding_mask"] = ids[:, :-1], padding
    x, y = {key: value for key, value in inputs.items() if key in model.input}, ids[:, 1:]
    if "mask_positions" in x:
        y = ids[:, [1, 4]]
    elif "Classifier" in type(model).__name__:
        y = ids[:, 0] % 3
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.5)
    sampler = {"sampler": "greedy"} if hasattr(model, "generate") else {}
    model.compile(optimizer, loss, weighted_metrics=["accuracy"], **sampler)
    found = {"history": model.fit(x, y, batch_size=16, epochs=2, verbose=0).history}
    found["evaluated"] = model.evaluate(x, y, batch_size=16, verbose=0)
    found["predicted"] = np.ravel(model.predict(x, batch_size=16, verbose=0))[::7].tolist()
    if hasattr(model, "call_with_cache"):
        found["cached"] = np.ravel(Cached(model).predict(ids[:, :6], batch_size=16, verbose=0))[::7].tolist()
    if hasattr(model, "generate"):
        found["generated"] = generated(model, {key: np.asarray(value[:3]) for key, value in x.items()})
    found["weights"] = {weight.path: float(np.abs(np.asarray(weight)).sum()) for weight in model.weights}
    found["stored"] = {weight.path: list(weight._value.shape) for weight in model.trainable_weights}
    return found


def generated(model: Any, prompt: dict[str, Any]) -> Any:
    """What follows on the first four tokens."""
    own = "decoder_padding_mask" if "decoder_padding_mask" in prompt else "padding_mask"
    prompt[own] = np.tile(np.arange(8) < 4, (len(prompt[own]), 1)).astype("int32")
    # Gemma 3 without a vision encoder has no masks of images, which its `generate` would join.
    is_of_images = isinstance(model, models.Gemma3CausalLM)
    generate = model.make_generate_function() if is_of_images else model.generate
    outputs = generate(prompt, stop_token_ids=None)
    return {key: np.asarray(value).tolist() for key, value in outputs.items() if value is not None}


gathered: set[str] = set()
read_full = axis_weights.read


def noted(shard: Any, dtype: Any, stored: Any) -> Any:
    """Notes which weight is gathered where code of a step reads it."""
    gathered.add(shard.variable.path)
    return read_full(shard, dtype, stored)


axis_weights.read = noted
name, samples, groups = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
keras.config.set_floatx("float32" if name in IN_FLOAT32 else "float64")
keras.config.set_dtype_policy("float64")
keras.utils.set_random_seed(3)
if groups:
    distribute(name, groups)
print(json.dumps({**trained(MODELS[name](), samples), "gathered": sorted(gathered)}))
