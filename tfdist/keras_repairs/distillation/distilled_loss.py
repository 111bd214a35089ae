"""A teacher beside a model: while the model trains, its loss is partly the divergence from what the teacher gives.

The model stays what it is. The teacher is no part of it, and so of no file that it is saved in; evaluations compute the
loss of the labels alone. What the teacher gives counts as a term of `compile`'s loss does, so that replicas share it
out in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.loss_scope import LOSS_SCOPE
from tfdist.keras_repairs.distillation.distillation_metrics import DistillationMetrics
from tfdist.keras_repairs.distillation.soft_targets import SoftTargets

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
