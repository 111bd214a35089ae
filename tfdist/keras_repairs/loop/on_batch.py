"""Repairs of `train_on_batch`, `test_on_batch` and `predict_on_batch` under a strategy of several replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.tensorflow import trainer as trainer_module
from keras.src.utils.python_utils import pythonify_logs

from tfdist.keras_repairs.base.keras_differences import DIFFERENCES
from tfdist.keras_repairs.loop.step_logs import over_replicas
from tfdist.runtime.batches.replica_batches import GlobalBatch

Function = Callable[..., Any]


def train_on_batch(original: Function) -> Function:
    """Repairs `train_on_batch`: the batch is cut among the replicas and the result is read from the metrics."""

    def repaired(
        self: Any, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None, return_dict: bool = False
    ) -> Any:
        if self.distribute_strategy.num_replicas_in_sync == 1:
            return original(self, x, y, sample_weight, class_weight, return_dict)
        self._assert_compile_called("train_on_batch")
        if class_weight is not None:
            if sample_weight is not None:
                raise ValueError("`class_weight` and `sample_weight` cannot both be given to train_on_batch.")
            sample_weight = trainer_module.data_adapter_utils.class_weight_to_sample_weights(y, class_weight)
        self._maybe_symbolic_build(data_batch=(x, y, sample_weight))
        self.make_train_function()
        return _on_batch(self, self.train_function, (x, y, sample_weight), return_dict)

    return repaired


def test_on_batch(original: Function) -> Function:
    """Repairs `test_on_batch` as `train_on_batch`."""

    def repaired(self: Any, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False) -> Any:
        if self.distribute_strategy.num_replicas_in_sync == 1:
            return original(self, x, y, sample_weight, return_dict)
        self._assert_compile_called("test_on_batch")
        self._maybe_symbolic_build(data_batch=(x, y, sample_weight))
        self.make_test_function()
        return _on_batch(self, self.test_function, (x, y, sample_weight), return_dict)

    return repaired


def predict_on_batch(original: Function) -> Function:
    """Repairs `predict_on_batch`: every sample is predicted once, in the order of the input."""

    def repaired(self: Any, x: Any) -> Any:
        strategy = self.distribute_strategy
        if strategy.num_replicas_in_sync == 1:
            return original(self, x)
        self.make_predict_function()
        outputs = self.predict_function([whole((x,))])
        return keras.tree.map_structure(trainer_module.convert_to_np_if_not_ragged, outputs)

    return repaired


def whole(batch: Any) -> GlobalBatch:
    """One batch of arrays, the same on every worker, of which each replica takes its piece while it runs.

    A step is then traced by the shape of the global batch, on every worker at the same time. With pieces of one size on
    one worker and of two sizes on another, steps would be traced, and their collectives counted, differently.
    """
    return GlobalBatch(
        keras.tree.map_structure(lambda leaf: None if leaf is None else tf.convert_to_tensor(leaf), batch)
    )


def _on_batch(model: Any, function: Function, batch: Any, return_dict: bool) -> Any:
    if DIFFERENCES.batch_metrics_begin_anew:
        model.reset_metrics()
    logs = _as_results(over_replicas(model, function(iter([whole(batch)]))))
    return logs if return_dict else model._flatten_metrics_in_order(logs)


def _as_results(logs: Any) -> Any:
    return pythonify_logs(logs) if DIFFERENCES.batch_results_are_floats else keras.tree.map_structure(np.array, logs)
