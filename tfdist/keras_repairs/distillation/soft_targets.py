"""The loss of a distillation: how far a model's softened outputs are from those of its teacher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import keras
from keras import ops

Kind = Literal["categorical", "binary"]
"""True if the last axis has the classes of one choice, or values that are each a choice between two."""


@dataclass(frozen=True)
class Softening:
    """The form of an output of student and teacher.

    Attributes:
        kind: Which choice it is.
        student_gives_logits: Whether the student gives logits, rather than probabilities.
        teacher_gives_logits: The same of the teacher.
    """

    kind: Kind = "categorical"
    student_gives_logits: bool = False
    teacher_gives_logits: bool = False


class SoftTargets(keras.losses.Loss):
    """The Kullback-Leibler divergence of a student's softened outputs from its teacher's.

    Logits of both are divided by the temperature, and the divergence is multiplied by its square, which keeps gradients
    as large as those of the labels (Hinton, Vinyals and Dean, Distilling the Knowledge in a Neural Network, 2015).
    Probabilities are taken for the softmax of their logarithms, or the sigmoid of their logits. As with Keras's losses
    of labels, the value of a sample is a sum over the classes of a choice, and a mean over choices between two.

    Args:
        softening: What the outputs are.
        temperature: Above 0.

    Example:
        `SoftTargets(Softening(student_gives_logits=True, teacher_gives_logits=True), 2.0)(teacher(x), student(x))`, for
        outputs float [samples, ..., classes], is a scalar.
    """

    def __init__(self, softening: Softening, temperature: float) -> None:
        super().__init__(name="soft_targets")
        self.softening = softening
        self.temperature = temperature

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """The value of each sample, float [samples, ...]."""
        teacher = self._softened(y_true, gives_logits=self.softening.teacher_gives_logits)
        student = self._softened(y_pred, gives_logits=self.softening.student_gives_logits)
        if self.softening.kind == "binary":
            targets, entropy = ops.sigmoid(teacher), ops.binary_crossentropy
        else:
            targets, entropy = ops.softmax(teacher), ops.categorical_crossentropy
        values = entropy(targets, student, from_logits=True) - entropy(targets, teacher, from_logits=True)
        if self.softening.kind == "binary":
            values = ops.mean(values, axis=-1)
        return values * self.temperature**2

    def _softened(self, outputs: Any, *, gives_logits: bool) -> Any:
        if not gives_logits:
            least = keras.config.epsilon()
            outputs = ops.clip(outputs, least, 1.0 - least)
            outputs = ops.log(outputs) - (ops.log1p(-outputs) if self.softening.kind == "binary" else 0.0)
        return outputs / self.temperature
