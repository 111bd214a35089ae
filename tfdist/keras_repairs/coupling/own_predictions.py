"""The user's `predict_step`: tried out when it is first traced, and gathered if it must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.batch_rows import has_rows
from tfdist.keras_repairs.base.replica_step import alone, this_step
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.keras_repairs.coupling.global_batch import call_with_all_rows
from tfdist.keras_repairs.coupling.output_rows import traced_outputs
from tfdist.keras_repairs.coupling.own_steps import kind_of, refusal
from tfdist.keras_repairs.coupling.trials.steps.prediction_trial import try_out
from tfdist.keras_repairs.coupling.trials.steps.step_verdict import Cause, StepVerdict
from tfdist.keras_repairs.model_checks.model_facts import unbuilt_parts
from tfdist.runtime import random_state
from tfdist.runtime.strategy_settings import settings_of

Step = Callable[[Any], Any]


def exact_predictions(model: keras.Model, step_function: Step) -> Step:
    """`step_function`, which is tried out when it is first traced for data of a kind.

    That is before it is traced, and where a layer of the model is not built yet, after a trace that builds it. Where
    what it returns for a sample depends on the others, or where it cannot be tried out, each replica calls it with the
    rows of all.

    Args:
        model: Under a strategy of several replicas.
        step_function: Its `predict_step`.

    Returns:
        A step that raises UnsupportedError where replicas cannot assign what it assigns.
    """
    name = f"{type(model).__qualname__}.predict_step"
    verdicts: dict[str, StepVerdict] = {}

    def repaired(data: Any) -> Any:
        if not settings_of(model.distribute_strategy).gather:
            warn_once(f"gather: off. {name} is not tried out: it sees the samples of its replica alone.")
            return step_function(data)
        if this_step().trace.builds:
            return step_function(data)
        kind = kind_of(data)
        if kind not in verdicts:
            if tf.executing_eagerly() and unbuilt_parts(model):
                step_function(data)
            verdicts[kind] = try_out(model, step_function, data)
        verdict = verdicts[kind]
        if verdict.cause is Cause.SHARED:
            raise refusal(name, model, verdict)
        if verdict.has_constants and this_step().share.static_rows is not None:
            raise _of_constants(name, model)
        if verdict.cause is Cause.EXACT:
            return step_function(data)
        _say(name, model, verdict)
        return call_with_all_rows(step_function, (data,), {})

    return repaired


def eager_predictions(model: keras.Model, step_function: Step) -> Step:
    """Keras's own `step_function` in steps that run eagerly, which is traced once for outputs that have no rows.

    Every size is a number there, and one may be that of the batch by chance. A step that cannot be traced is judged by
    its sizes.

    Returns:
        A step that raises UnsupportedError where there is one.
    """
    have_rows: dict[str, bool | None] = {}

    def repaired(data: Any) -> Any:
        outputs = step_function(data)
        kind = kind_of(data)
        if kind not in have_rows:
            have_rows[kind] = _have_rows(step_function, data)
        known, rows = have_rows[kind], this_step().share.static_rows
        if known is False or (known is None and rows and not _are_multiples(outputs, rows)):
            raise _of_constants(f"{type(model).__qualname__}.predict_step", model)
        return outputs

    return repaired


def _have_rows(step_function: Step, data: Any) -> bool | None:
    """Returns whether all that a step returns has rows of the batch; None where it cannot be traced."""
    are_rows = [has_rows(leaf) for leaf in tf.nest.flatten(data)]
    with alone(), random_state.kept():
        outputs = traced_outputs(step_function, data, are_rows)
    return None if outputs is None else all(has_rows(output) and output.shape[0] is None for output in outputs)


def _are_multiples(outputs: Any, rows: int) -> bool:
    return all(has_rows(leaf) and (leaf.shape[0] or 0) % rows == 0 for leaf in tf.nest.flatten(outputs))


def _say(name: str, model: keras.Model, verdict: StepVerdict) -> None:
    reason = f"it could not be tried out ({verdict.what})"
    if verdict.cause is not Cause.FAILED:
        reason = f"{verdict.what} depends on the other samples of its batch"
    warn_once(
        f"{name} of {model.name!r} is called with the samples of all replicas, gathered in each step, and every "
        f"replica computes all of it: {reason}. Put the part of it that takes a sample by the others into "
        "tfdist.gathered(function)(tensors): then that part alone is."
    )


def _of_constants(name: str, model: keras.Model) -> UnsupportedError:
    return UnsupportedError(
        f"{name} of {model.name!r} returns a tensor that is the same for any samples, in a step that runs eagerly or "
        "for batches of a fixed size, where it cannot be told from one with a row for each sample. Expected rows, "
        "which predict joins. Leave it out of what predict_step returns, or leave out run_eagerly=True."
    )
