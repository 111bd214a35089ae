"""The two summands of a distilled loss as metrics of the training: that of the labels, and that of the teacher."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

STUDENT, TEACHER = "student_loss", "distillation_loss"
"""Their names in logs, which are those of `keras.distillation.Distiller`."""


class DistillationMetrics:
    """Means over the samples of an epoch. They are metrics of the model while it trains, and in no file of it.

    Args:
        model: Compiled; its `evaluate` and `get_metrics_result` leave the parts out of evaluations, which have none.
    """

    def __init__(self, model: Any) -> None:
        with model.distribute_strategy.scope():
            self._means = {name: keras.metrics.Mean(name) for name in (STUDENT, TEACHER)}
        # An attribute would be written to files of the model.
        model._metrics.extend(self._means.values())
        evaluate, result = model.evaluate, model.get_metrics_result
        is_evaluating = False

        def evaluate_labels(*args: Any, **kwargs: Any) -> Any:
            nonlocal is_evaluating
            is_evaluating = True
            try:
                return evaluate(*args, **kwargs)
            finally:
                is_evaluating = False

        def result_of_phase() -> dict[str, Any]:
            found = result()
            return {name: value for name, value in found.items() if not (is_evaluating and name in self._means)}

        model.evaluate, model.get_metrics_result = evaluate_labels, result_of_phase

    def update(self, student: Any, teacher: Any, y_pred: Any) -> None:
        """Counts the losses of a batch, as Keras counts the losses of several outputs.

        Args:
            student: Of the labels.
            teacher: Of what the teacher gives.
            y_pred: What the model gives for the batch.
        """
        samples = tf.shape(tf.nest.flatten(y_pred)[0])[0]
        for name, value in ((STUDENT, student), (TEACHER, teacher)):
            self._means[name].update_state(value, sample_weight=samples)
