"""Trains models whose layers compute with slices of their weights.

Prints the numbers, which weights were gathered, which are whole that a layout is for, by which operations own rows were
put together, how often rows were exchanged, and what was refused.
Run with the size of the mesh's batch axis, 0 for no layouts, the samples, and the kinds of models.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import defaultdict
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from tests.workers.sliced_models import LAYOUTS, MODELS, Sample, mlp
from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.loop import step_execution
from tfdist.keras_repairs.sharded_parameters import axis_weights
from tfdist.keras_repairs.tensor_parallel import created_operations, row_exchanges
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import SlicedRows

groups, samples, kinds = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
devices = keras.distribution.list_devices()
keras.config.set_floatx("float64")
if len(devices) > 1 and groups:
    mesh = keras.distribution.DeviceMesh((groups, len(devices) // groups), ["batch", "model"], devices)
    layout = keras.distribution.LayoutMap(mesh)
    for pattern, axes in LAYOUTS.items():
        layout[pattern] = axes
    keras.distribution.set_distribution(keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch"))

gathered: dict[str, set[str]] = defaultdict(set)
read_full = axis_weights.read


def noted(shard: Any, dtype: Any, stored: Any) -> Any:
    """Notes which weight is gathered where code reads it."""
    gathered[kind].add(shard.variable.path)
    return read_full(shard, dtype, stored)


axis_weights.read = noted
LAID_OUT = re.compile("(.*/)?(up|alone|down|wide|narrow|broad|slim|table|places|attention)[^/]*/?.*(kernel|embeddings)")
"""The weights that have a layout, by the names of their layers."""
whole: dict[str, set[str]] = defaultdict(set)
joined: dict[str, set[str]] = defaultdict(set)
refused: list[str] = []
of_slices = created_operations.of_slices


def noting(op_type: str, inputs: Any, attributes: Any) -> Any:
    """Notes which operations have own rows put together."""
    found = of_slices(op_type, inputs, attributes)
    is_of_sizes = op_type in ("Shape", "Size")
    if found is None and not is_of_sizes and any(isinstance(part, SlicedRows) for _, part in inputs):
        joined[kind].add(op_type)
    return found


created_operations.of_slices = noting
exchanges: dict[str, int] = defaultdict(int)


def counting(exchange: Any) -> Any:
    """Counts exchanges of rows, in all traces of a model."""

    def counted(*args: Any, **kwargs: Any) -> Any:
        exchanges[kind] += 1
        return exchange(*args, **kwargs)

    return counted


for name in ("exchange_rows", "gather_rows"):
    setattr(row_exchanges, name, counting(getattr(row_exchanges, name)))


class OwnStep(keras.Model):
    """A step of a user's."""

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            hidden = self.get_layer("alone_l")(x)
            total = ops.sum(hidden)
        try:
            tape.gradient(total, hidden)
        except UnsupportedError as error:
            refused.append(str(error))
        summed = tf.matmul(hidden, self.get_layer("down_l").kernel)
        with tf.GradientTape() as tape:
            tape.watch(summed)
            squares = tf.reduce_sum(tf.square(summed))
        by_summed = ops.mean(ops.abs(tape.gradient(squares, summed)))
        with tf.GradientTape() as tape:
            loss = ops.mean(ops.square(self(x, training=True) - y))
        weights = self.trainable_variables
        before = [weight * 1.0 for weight in weights]
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        pairs = zip(before, weights, strict=True)
        changed = sum(ops.sum(ops.abs(weight - old)) for old, weight in pairs)
        return {"squares": loss, "changed": changed, "by_summed": by_summed}


UNEVEN = ("unusual",)
"""The models of whose batches workers have different numbers of rows."""

EVALUATED = ("mlp", "classifier")
"""The models that evaluate and predict by default, which takes as long as to train."""

BY_BATCH, LARGE = ("images",), step_execution._LARGE
"""The models that are trained as large ones are, and how large those are."""

models = {**MODELS, "own_step": lambda sample: mlp(sample, OwnStep)}
sample = Sample(samples)
found: dict[str, Any] = {}
for kind in kinds:
    keras.utils.set_random_seed(3)
    model, inputs, labels, loss, *metrics = models[kind](sample)
    step_execution._LARGE = 0 if kind in BY_BATCH else LARGE
    optimizer = keras.optimizers.Adam(0.01, clipnorm=0.5)
    model.compile(optimizer, None if kind == "own_step" else loss, metrics=metrics[0] if metrics else None)
    fitted = model.fit(inputs, labels, batch_size=15 if kind in UNEVEN else 16, epochs=2, verbose=0)
    evaluated, predicted = 0.0, []
    if kind in EVALUATED or os.environ.get("TFDIST_SLOW_TESTS"):
        evaluated = 0.0 if kind == "own_step" else model.evaluate(inputs, labels, verbose=0)
        predicted = keras.tree.map_structure(np.ndarray.tolist, model.predict(inputs, verbose=0))
    alone: list[Any] = []
    if kind == "mlp":  # A batch of one sample: the other workers have none.
        x, y = inputs[:1], labels[:1]
        batches = model.train_on_batch(x, y), model.test_on_batch(x, y), model.predict_on_batch(x)
        alone = [np.asarray(each).tolist() for each in batches]
    laid_out = [w for w in model.weights if LAID_OUT.fullmatch(w.path) and "lora" not in w.path]
    whole[kind] = {w.path for w in laid_out if tuple(w._value.shape) == tuple(w.shape)}
    # A gradient by the bias of the keys is rounding alone, of which Adam makes a step.
    weights = [w for w in model.weights if not w.path.endswith(("key/bias", "first/bias"))]
    found[kind] = [fitted.history, evaluated, predicted, alone, [np.asarray(weight).tolist() for weight in weights]]
notes = {"gathered": gathered, "whole": whole, "joined": joined}
said = {name: {kind: sorted(of) for kind, of in each.items()} for name, each in notes.items()}
print(json.dumps({"trained": found, "refused": refused, "exchanges": exchanges, **said}))
