"""Trains models of sequences, which `--context` cuts, and prints the numbers, and by which operations a worker's own
samples were put together. Run with the samples and the kinds of models."""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from typing import Any

import keras
import numpy as np

from tests.workers.sequence_models import MODELS, Sequences
from tfdist.keras_repairs.tensor_parallel import created_operations, row_exchanges
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import SlicedRows

IS_SLOW = bool(os.environ.get("TFDIST_SLOW_TESTS"))
keras.config.set_floatx("float64")
# Gradients of kernels as small as these stay where they are, too.
row_exchanges._LARGE = 100
joined: dict[str, set[str]] = defaultdict(set)
cut: dict[str, int] = defaultdict(int)
of_slices = created_operations.of_slices


def noting(op_type: str, inputs: Any, attributes: Any) -> Any:
    found = of_slices(op_type, inputs, attributes)
    cut[kind] += found is not None
    if found is None and op_type not in ("Shape", "Size") and any(isinstance(part, SlicedRows) for _, part in inputs):
        joined[kind].add(op_type)
    return found


created_operations.of_slices = noting
data, kinds = Sequences(int(sys.argv[1])), sys.argv[2:]
trained: dict[str, Any] = {}
for kind in kinds:
    keras.utils.set_random_seed(3)
    model, inputs, targets, loss, *others = MODELS[kind](data)
    metrics, weights = [*others, None, None][:2]
    optimizer = keras.optimizers.Adam(0.01, clipnorm=None if loss is None else 0.5)
    model.compile(optimizer, loss, **{"weighted_metrics" if weights else "metrics": metrics})
    given = {"sample_weight": weights} if weights else {}
    fitted = model.fit(inputs, targets, batch_size=5, epochs=2, verbose=0, **given)
    evaluated, predicted, sizes = 0.0, [], ()
    if kind == "decoder" or IS_SLOW:
        evaluated = 0.0 if loss is None else model.evaluate(inputs, targets, batch_size=5, verbose=0, **given)
        predicted = keras.tree.map_structure(np.ndarray.tolist, model.predict(inputs, batch_size=5, verbose=0))
        sizes = (1, 3) if IS_SLOW else (1,)
    # A batch of one sample: the other workers have none. One of three: workers have different numbers.
    alone: list[Any] = []
    for size in sizes:
        rows = slice(size)
        first, wanted = (keras.tree.map_structure(lambda each, of=rows: each[of], both) for both in (inputs, targets))
        alone += [model.train_on_batch(first, wanted), model.predict_on_batch(first)]
    # A gradient by the bias of keys is rounding alone, of which Adam makes a step.
    values = [np.asarray(weight).tolist() for weight in model.weights if "key/bias" not in weight.path]
    alone = keras.tree.map_structure(lambda each: np.asarray(each).tolist(), alone)
    trained[kind] = [fitted.history, evaluated, predicted, alone, values]
print(json.dumps({"trained": trained, "joined": {kind: sorted(of) for kind, of in joined.items()}, "cut": cut}))
