"""Trains models with frozen layers, in every place and at every time: on one worker, or on several that hold parts.

Says losses and weights, and how often the steps that were traced put weights together and sum gradients. With `all` as
the second argument also of models that are recomputed, and frozen and thawed several times.
"""

import json
import sys
from typing import Any

import keras
import numpy as np

from tests.exactness.recomputed_models import blocks
from tfdist.runtime.transport import shard_collectives

keras.backend.set_floatx("float64")
keras.config.set_dtype_policy("float64")
X = np.random.default_rng(1).normal(size=(41, 6))
KINDS = np.random.default_rng(2).integers(0, 3, 41)
counts = {"joined": 0, "summed": 0}


def count(name: str, kind: str) -> None:
    original = getattr(shard_collectives, name)

    def counting(given: Any, *arguments: Any, **options: Any) -> Any:
        counts[kind] += len(given) if kind == "summed" else 1
        return original(given, *arguments, **options)

    setattr(shard_collectives, name, counting)


count("all_gather_one", "joined")
count("reduce_scatter_gradients", "summed")


class LowRank(keras.layers.Layer):
    """A frozen kernel and a trained product of two small ones beside it, as `Dense.enable_lora` has in float32."""

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(shape=(shape[-1], shape[-1]), name="kernel")
        self.down = self.add_weight(shape=(shape[-1], 2), name="down")
        self.up = self.add_weight(shape=(2, shape[-1]), name="up")
        self.kernel.trainable = False

    def call(self, x: Any) -> Any:
        return keras.ops.tanh(x @ (self.kernel + self.down @ self.up) + x @ self.kernel)


def fitted(model: keras.Model, frozen: tuple[str, ...] = ()) -> dict[str, Any]:
    """What a model gives that is compiled and trained with some of its layers frozen."""
    for layer in model.layers:
        if layer.name in frozen or not layer.trainable:
            layer.trainable = layer.name not in frozen
    counts.update(joined=0, summed=0)
    optimizer = keras.optimizers.AdamW(0.01, global_clipnorm=0.3, use_ema=True, weight_decay=0.01)
    model.compile(optimizer, "sparse_categorical_crossentropy")
    loss = model.fit(X, KINDS, batch_size=20, shuffle=False, verbose=0, epochs=2).history["loss"]
    return {"loss": loss, "weights": [weight.tolist() for weight in model.get_weights()], "counts": dict(counts)}


def stack(two: Any = None) -> keras.Model:
    """Four layers of one weight each, or another one in the second's place, and dropout."""
    keras.utils.set_random_seed(3)
    return keras.Sequential([keras.Input((6,)), dense("one"), two or dense("two"), dense("three"),
                             keras.layers.Dropout(0.3), dense("last", 3, "softmax")])  # fmt: skip


def dense(name: str, units: int = 6, activation: str = "tanh", **options: Any) -> keras.layers.Layer:
    return keras.layers.Dense(units, activation, use_bias=False, name=name, **options)


def recomputed() -> keras.Model:
    """Blocks that are computed again in the backward pass."""
    keras.utils.set_random_seed(4)
    return blocks("full")


unfrozen = stack()
said: dict[str, Any] = {
    "none": fitted(unfrozen),
    "first": fitted(stack(), ("one", "two")),
    "between": fitted(stack(), ("two",)),
    "from the start": fitted(stack(dense("two", trainable=False)), ("two",)),
    "low rank": fitted(stack(LowRank()), ("one", "three")),
    "then frozen": fitted(unfrozen, ("two",)),
    "then not": fitted(unfrozen),
}
if "all" in sys.argv:
    changed = stack()
    said |= {
        "all but the first": fitted(stack(), ("two", "three", "last")),
        "one after another, first": fitted(changed, ("one",)),
        "one after another, two": fitted(changed, ("two", "last")),
        "one after another, none": fitted(changed),
        "recomputed, first": fitted(recomputed(), ("first", "block")),
        "recomputed, between": fitted(recomputed(), ("second",)),
    }
print(json.dumps(said))
