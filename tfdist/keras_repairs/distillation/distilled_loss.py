"""A teacher beside a model: while the model trains, its loss is partly the divergence from what the teacher gives.

The model stays what it is. The teacher is no part of it, and so of no file that it is saved in; evaluations compute the
loss of the labels alone. What the teacher gives counts as a term of `compile`'s loss does, so that replicas share it
out in the same way.

The two summands of a distilled loss as metrics of the training: that of the labels, and that of the teacher.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.loss_scope import LOSS_SCOPE
from tfdist.keras_repairs.distillation.soft_targets import SoftTargets

STUDENT_LOSS, TEACHER_LOSS = "student_loss", "distillation_loss"
"""Their names in logs, which are those of `keras.distillation.Distiller`."""


class DistillationMetrics:
    """Means over the samples of an epoch. They are metrics of the model while it trains, and in no file of it.

    Args:
        model: Compiled; its `evaluate` and `get_metrics_result` leave the parts out of evaluations, which have none.
    """

    def __init__(self, model: Any) -> None:
        with model.distribute_strategy.scope():
            self._means = {name: keras.metrics.Mean(name) for name in (STUDENT_LOSS, TEACHER_LOSS)}
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
        for name, value in ((STUDENT_LOSS, student), (TEACHER_LOSS, teacher)):
            self._means[name].update_state(value, sample_weight=samples)


LABELS, TEACHER = "labels", "teacher_outputs"
"""The keys of a batch's `y` that has what the teacher gives for its samples beside their labels."""

Outputs = Mapping[str, Any]
"""Outputs by name; those of a model with one output by whatever name."""

_IS_DISTILLED: AttachedValue[bool] = AttachedValue("is_distilled")


@dataclass(frozen=True)
class SoftTerm:
    """The term that the teacher adds to the loss of one output.

    Attributes:
        loss: The loss.
        weight: By which the output counts in the loss of `compile`.
    """

    loss: SoftTargets
    weight: float = 1.0


@dataclass(frozen=True)
class Distillation:
    """The way in which a model learns from a teacher.

    Attributes:
        alpha: How much the teacher counts, from 0 to 1; the labels count the rest.
        terms: Output's name -> its term.
        named: Gives the parts of a structure like the model's outputs, or like the weights of samples, by the names of
            the outputs.
        teacher: Gives the teacher's outputs for the inputs of a batch; None where batches bring them.
    """

    alpha: float
    terms: Mapping[str, SoftTerm]
    named: Callable[[Any], Outputs]
    teacher: Callable[[Any], Outputs] | None = None

    def loss(self, y_pred: Any, sample_weight: Any, targets: Outputs) -> tf.Tensor:
        """The divergence of a batch's predictions from what the teacher gives."""
        predicted = self.named(y_pred)
        weights = self.named(sample_weight) if tf.nest.is_nested(sample_weight) else {}
        values = []
        for name, term in self.terms.items():
            output = predicted[name] if len(predicted) > 1 else next(iter(predicted.values()))
            target = targets[name] if len(targets) > 1 else next(iter(targets.values()))
            weight = weights.get(name) if weights else sample_weight
            value = term.loss(tf.stop_gradient(target), output, weight)
            values.append(value * tf.cast(term.weight, value.dtype))
        return tf.add_n(values)


def distill(model: Any, distillation: Distillation) -> None:
    """Lets a model learn from a teacher in every `fit` from now on.

    Args:
        model: Compiled, with a loss and the steps of Keras.
        distillation: How.
    """
    compute_loss, compute_metrics = model.compute_loss, model.compute_metrics
    of_labels = model._compile_loss.call
    logged = DistillationMetrics(model)

    def distilled_loss(
        x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        labels, targets = _parts(y)
        if training and targets is None and distillation.teacher is not None:
            targets = distillation.teacher(x)
        with changing(LOSS_SCOPE, teacher=targets if training else None):
            return compute_loss(x, labels, y_pred, sample_weight, training)

    def metrics_of_labels(x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        return compute_metrics(x, labels_of(y), y_pred, sample_weight)

    def weighted_losses(y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        labels, targets = of_labels(y_true, y_pred, sample_weight), LOSS_SCOPE.get().teacher
        if targets is None:
            return labels
        soft = tf.cast(distillation.loss(y_pred, sample_weight, targets), labels.dtype)
        logged.update(labels, soft, y_pred)
        return (1.0 - distillation.alpha) * labels + distillation.alpha * soft

    for method in (distilled_loss, metrics_of_labels):
        _IS_DISTILLED.set(method, True)
    model.compute_loss, model.compute_metrics = distilled_loss, metrics_of_labels
    model._compile_loss.call = weighted_losses


def is_distilled(method: Any) -> bool:
    """Returns whether a method of a model is one that `distill` has given it."""
    return bool(_IS_DISTILLED.get(method))


def labels_of(y: Any) -> Any:
    """The labels of a batch, without what a teacher gives for its samples."""
    return _parts(y)[0]


def _parts(y: Any) -> tuple[Any, Outputs | None]:
    """The labels of a batch, and what the teacher gives for its samples where the batch brings that."""
    if isinstance(y, Mapping) and y.keys() == {LABELS, TEACHER}:
        return y[LABELS], y[TEACHER]
    return y, None
