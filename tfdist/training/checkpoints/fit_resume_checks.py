"""Checks that a `fit` can resume from a checkpoint, and within an epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfdist.errors import RunDirError, UnsupportedError
from tfdist.keras_repairs.inputs.data_position import FitData


def check_same_data(there: Mapping[str, Any], data: FitData) -> None:
    """Checks that global batches are those of the `fit` to resume.

    Raises:
        RunDirError: They are not: some samples of the epoch would come twice, and others not at all.
    """
    here = {"kind": data.kind, **data.facts}
    for name in here.keys() | there.keys():
        if here.get(name) != there.get(name):
            remedy = " Start it with the --run-dir of that run, whose seed it takes." if name == "seed" else ""
            raise RunDirError(
                f"The checkpoint is of a fit whose data had another {name}: {there.get(name)}. Expected the same, "
                f"which decides the order of the samples. Received: {here.get(name)}.{remedy} Resume with the same "
                "data, or choose another directory."
            )


def check_place(done: int, data: FitData) -> None:
    """Checks that a `fit` on `data` can begin after `done` steps of an epoch.

    Raises:
        RunDirError: It cannot: some samples of the epoch would come twice.
    """
    if done and data.why_not:
        raise RunDirError(
            f"The checkpoint was made after {done} steps of an epoch. Expected data that can resume within an epoch, "
            f"as the fit had. Received: {data.kind}, and {data.why_not}. Resume with the same data, or choose another "
            "directory."
        )


def check_executions(done: int, steps: int, steps_per_execution: int) -> None:
    """Checks that an execution of several steps can begin after `done` of the `steps` of an epoch.

    Raises:
        RunDirError: It cannot.
    """
    if done % steps_per_execution and done != steps:
        raise RunDirError(
            f"The checkpoint was made after {done} steps of an epoch. Expected steps_per_execution to divide them. "
            f"Received: {steps_per_execution}. Resume with the number that the fit had, which can be changed between "
            "two epochs."
        )


def check_optimizers(there: Sequence[int], here: Sequence[int]) -> None:
    """Checks that every optimizer has as many variables as the one that was saved.

    Raises:
        UnsupportedError: One has not: it is not built yet.
    """
    if list(there) != list(here):
        raise UnsupportedError(
            "This fit cannot resume from its checkpoint: an optimizer of the model has no variables yet, and Keras "
            f"would not load them. Expected {there} variables, one number for each optimizer. Received: {here}. Call "
            "optimizer.build(variables) on each before fit."
        )


def epoch_ends_only(data: FitData) -> str:
    """The warning for a `fit` whose checkpoints can be made at the ends of epochs alone."""
    return (
        "Checkpoints of this fit are made at the ends of its epochs alone, and an epoch that is killed begins again: "
        f"its data is {data.kind}, and {data.why_not}. Data that can resume within an epoch: arrays, tfdist.data, and "
        "a tf.data.Dataset without Python code and without randomness other than shuffle."
    )
