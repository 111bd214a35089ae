"""The differences of Keras between the supported versions, where a repair has to do the same.

Everything else that differs is in functions that the repairs call as they are; `fingerprints` has those of each
version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import keras


def is_from(version: str) -> bool:
    """Returns whether this Keras is `version`, such as `3.14`, or a later one."""
    return _numbers(keras.__version__) >= _numbers(version)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


@dataclass(frozen=True)
class KerasDifferences:
    """The behaviour of this version.

    Attributes:
        batch_metrics_begin_anew: Whether the metrics that `train_on_batch` and `test_on_batch` return are those of the
            batch alone. Before 3.15 they are those of all batches since the metrics were last reset.
        batch_results_are_floats: Whether these return floats. Before 3.14 they return NumPy's arrays.
        activity_is_of_a_row: Whether the term of an activity regularizer is divided by the number of rows. Before 3.14
            it is the sum over the rows of the batch.
        logs_lie_flat: Whether `fit` and `evaluate` take logs in logs for logs of their own names. Before 3.14 `History`
            does it, when the names of validation have their `val_`, so that they overwrite those of training.
        masked_inputs_are_left_out: Whether BatchNormalization leaves inputs out by their mask. Before 3.15 it
            multiplies them by 0, which leaves NaN what is no number.
        masks_are_counted_exactly: Whether a loss is divided by the number of valid entries. In 3.12 it is divided by a
            little more, `keras.config.epsilon()`.
        masks_have_no_weights: Whether a loss takes any number in a mask but 0 for 1, where it does not count them.
            Before 3.15 it multiplies by the number.
    """

    batch_metrics_begin_anew: bool
    batch_results_are_floats: bool
    activity_is_of_a_row: bool
    logs_lie_flat: bool
    masked_inputs_are_left_out: bool
    masks_are_counted_exactly: bool
    masks_have_no_weights: bool


DIFFERENCES = KerasDifferences(
    batch_metrics_begin_anew=is_from("3.15"),
    batch_results_are_floats=is_from("3.14"),
    activity_is_of_a_row=is_from("3.14"),
    logs_lie_flat=is_from("3.14"),
    masked_inputs_are_left_out=is_from("3.15"),
    masks_are_counted_exactly=is_from("3.13"),
    masks_have_no_weights=is_from("3.15"),
)
