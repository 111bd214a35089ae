"""Checks of samples before they are trained on, which name the one that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import tensorflow as tf

from tfdist.data.argument_checks import integer
from tfdist.data.ops.python_functions import CountedCalls, call_python
from tfdist.errors import DataError, UsageError

OnNan = Literal["keep", "stop"]


@dataclass(frozen=True)
class SampleChecks:
    """Conditions that every sample must meet.

    Attributes:
        on_nan: With `stop`, a NaN in a sample or its label ends the run.
        classes: Labels are integers from 0 to `classes - 1`; None where they are something else.

    Raises:
        UsageError: A value is impossible.
    """

    on_nan: OnNan = "keep"
    classes: int | None = None

    def __post_init__(self) -> None:
        if self.on_nan not in ("keep", "stop"):
            raise UsageError(f"on_nan: expected keep or stop. Received: {self.on_nan!r}")
        if self.classes is not None:
            integer("classes", self.classes, at_least=1)

    def inspected(
        self, batches: tf.data.Dataset, numbers: tf.data.Dataset, name: Callable[[int], str]
    ) -> tf.data.Dataset:
        """Returns the same batches, in which the first sample that is wrong raises a `DataError` that names it.

        Args:
            batches: Structures of tensors [k, ...]; where they are pairs, the second one is the label.
            numbers: As many batches of the samples' numbers, int64 [k].
            name: From a sample's number to its file and place.
        """
        complain = CountedCalls(lambda number, label: self._complain(name(int(number)), float(label)))

        def look(batch: Any, numbers: tf.Tensor) -> Any:
            wrong, labels = self._wrong(batch, numbers)
            first = tf.argmax(tf.cast(wrong, tf.int32))
            tf.cond(
                tf.reduce_any(wrong),
                lambda: call_python(complain, [numbers[first], labels[first]], [tf.TensorSpec([], tf.int64)])[0],
                lambda: tf.constant(0, tf.int64),
            )
            return batch

        return tf.data.Dataset.zip(batches, numbers).map(look)

    def _wrong(self, batch: Any, numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns which samples are wrong, bool [k], and their labels where these are looked at: float64 [k]."""
        wrong = tf.zeros_like(numbers, tf.bool)
        labels = tf.zeros_like(numbers, tf.float64)
        if self.classes is not None:
            # Labels of CSV files are floating-point numbers, whose fraction Keras cuts off.
            labels = tf.cast(tf.reshape(_labels(batch), [-1]), tf.float64)
            wrong |= ~((labels >= 0) & (labels < self.classes) & (labels == tf.floor(labels)))
        if self.on_nan == "stop":
            for rows in tf.nest.flatten(batch):
                if rows.dtype.is_floating:
                    nan = tf.math.is_nan(rows)
                    wrong |= tf.reduce_any(nan, axis=tf.range(1, tf.rank(rows)))
        return wrong, labels

    def _complain(self, name: str, label: float) -> None:
        whole = label.is_integer()
        if self.classes is not None and not (whole and 0 <= label < self.classes):
            raise DataError(
                f"{name}: the label is {int(label) if whole else label}. Expected an integer from 0 to "
                f"{self.classes - 1}, as classes says."
            )
        raise DataError(f"{name}: there is a NaN in the sample. Expected numbers, as on_nan: stop says.")


def _labels(batch: Any) -> tf.Tensor:
    """The labels of a batch, numbers [k] or [k, 1]."""
    if not isinstance(batch, tuple) or len(batch) != 2 or not isinstance(batch[1], tf.Tensor):
        raise UsageError("classes: expected samples (x, y) with one label. Received: samples of another structure.")
    labels = batch[1]
    if labels.dtype == tf.string:
        raise UsageError("classes: expected labels that are integers. Received: strings.")
    if labels.shape[1:].num_elements() not in (1, None):
        raise UsageError(
            "classes: expected one label a sample, an integer. Received: labels of the shape "
            f"{tuple(labels.shape[1:])} each. Leave classes out where labels are vectors."
        )
    return labels
