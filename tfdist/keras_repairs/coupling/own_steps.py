"""The user's `train_step`, `test_step` and `compute_loss`: tried out when they are first traced, or else refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.replica_step import this_step
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.keras_repairs.coupling.declaring import declares
from tfdist.keras_repairs.coupling.trials.replica_trial import Mode
from tfdist.keras_repairs.coupling.trials.steps.step_trial import try_out
from tfdist.keras_repairs.coupling.trials.steps.step_verdict import Cause, StepVerdict
from tfdist.runtime.strategy_settings import settings_of

Step = Callable[[Any], Any]

_MENDING = {
    Cause.SUM: "It is a sum over the samples. Write tfdist.summed(loss), of that scalar, where it is computed.",
    Cause.COUPLED: (
        "It is neither a mean nor a sum over the samples: something in the step takes a sample by the others of its "
        "batch (a product of all samples with all, a mean along axis 0, a norm of gradients), and each replica has a "
        "part of them. Put that into a function and call tfdist.gathered(function)(tensors), which takes the rows of "
        "all replicas; clip gradients by the optimizer's clipnorm. Where a scalar is to be taken of each replica's "
        "samples alone, which is not what one device computes, write tfdist.averaged(loss)."
    ),
    Cause.UNBUILT: (
        "It would be exact where that is known before the first step, for which parts of the model are to be built by "
        "then: give them a keras.Input, or call build() of each."
    ),
    Cause.ASSIGNED: (
        "It depends on the samples, of which each replica has others. Compute what is assigned by "
        "tfdist.gathered(function)(tensors), which takes the rows of all replicas; count samples by "
        "tfdist.summed(number); accumulate gradients by the optimizer's gradient_accumulation_steps."
    ),
    Cause.SHARED: (
        "That variable was made outside of the strategy's scope, and the replicas of this process would all assign to "
        "it, one after the other. Make it where the model is made, under `with strategy.scope():`."
    ),
    Cause.ADDED_UP: (
        "That variable has aggregation SUM, which adds up what all replicas assign. Make it without an aggregation; "
        "assign tfdist.summed(number) where samples are counted."
    ),
}

_ONE_DEVICE = "Or run on one device (`tfdist train` without --workers, --nproc and --logical-devices)."


def tried_out(model: keras.Model, step_function: Step, step: Step) -> Step:
    """`step`, which tries `step_function` out when it is first traced for data of a kind.

    That is before it is traced, or where something of the model is not built yet, which must not happen in a trial,
    afterwards.

    Args:
        model: Compiled, under a strategy of several replicas.
        step_function: Its `train_step` or `test_step`.
        step: What calls it.

    Returns:
        A step that raises UnsupportedError where it would not give the numbers of one replica.
    """
    name = f"{type(model).__qualname__}.{step_function.__name__}"
    verdicts: dict[str, StepVerdict] = {}

    def repaired(data: Any) -> Any:
        if not settings_of(model.distribute_strategy).gather:
            warn_once(f"gather: off. {name} is not tried out: scalars that it computes are averaged over the replicas.")
            return step(data)
        kind = kind_of(data)
        if kind not in verdicts and _is_built(model):
            verdict = try_out(model, step_function, data)
            if verdict.cause is not Cause.FAILED:
                verdicts[kind] = verdict
        if kind in verdicts:
            _check(name, model, verdicts[kind])
            mode = verdicts[kind].mode
            this_step().sums, this_step().stacks = mode.sums, mode.stacks
            this_step().known_updates = verdicts[kind].updates
            this_step().known_gathered = verdicts[kind].gathered
            return step(data)
        outputs = step(data)
        verdict = try_out(model, step_function, data)
        if verdict.mode != Mode():
            verdict = StepVerdict(Cause.UNBUILT, "what its optimizers get as gradients")
        elif this_step().static_rows is not None and _has_vectors_of_batch(verdict):
            verdict = StepVerdict(Cause.UNBUILT, "what its metrics are updated with")
        verdicts[kind] = verdict
        _check(name, model, verdict)
        return outputs

    return repaired


def kind_of(data: Any) -> str:
    """What decides how a step computes with its data, but for the number of rows and the values."""
    return str(tf.nest.map_structure(_kind, data))


def _kind(leaf: Any) -> Any:
    return type(leaf).__name__, getattr(leaf, "shape", ())[1:], getattr(leaf, "dtype", None)


def _is_built(model: Any) -> bool:
    """Whether a step makes no more variables, as far as can be seen."""
    has_call = type(model).call is not keras.Model.call
    layers = model._flatten_layers(include_self=has_call)
    return all(layer.built for layer in layers) and all(metric.variables for metric in model.metrics)


def _has_vectors_of_batch(verdict: StepVerdict) -> bool:
    return any(update.has_vector_of_batch for updates in verdict.updates.values() for update in updates)


def _check(name: str, model: keras.Model, verdict: StepVerdict) -> None:
    if verdict.cause is Cause.EXACT or (verdict.cause is Cause.FAILED and declares(this_step())):
        return
    if verdict.cause is Cause.FAILED:
        raise UnsupportedError(
            f"{name} of {model.name!r} could not be tried out on a few made-up samples ({verdict.what}), so whether N "
            "replicas would give the numbers of one is not known. Where its losses are means over the samples, say so: "
            f"loss = tfdist.averaged(loss); where they are sums, loss = tfdist.summed(loss). {_ONE_DEVICE}"
        )
    raise refusal(name, model, verdict)


def refusal(name: str, model: keras.Model, verdict: StepVerdict) -> UnsupportedError:
    """The error for a step that was tried out and is not that of one replica.

    Args:
        name: Of the step.
        model: Whose step it is.
        verdict: What was found.
    """
    return UnsupportedError(
        f"{name} of {model.name!r} would not give the numbers of one replica, as was found on a few made-up samples: "
        f"{verdict.what}. {_MENDING[verdict.cause]} {_ONE_DEVICE}"
    )
