"""The user's steps, `train_step`, `predict_step` and their kin: tried out for how replicas can share them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.batch_rows import has_rows
from tfdist.keras_repairs.base.replica_step import (
    ReplicaStep,
    TraceAgain,
    UnclearSizeError,
    alone,
    replica_step,
    this_step,
)
from tfdist.keras_repairs.base.step_records import KnownOfStep, Mode
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.keras_repairs.coupling.batch_branches import WHICH_BRANCH, takes_branches, without_branches
from tfdist.keras_repairs.coupling.declarations import Declared, DeclaredFunction
from tfdist.keras_repairs.coupling.global_batch import call_with_all_rows
from tfdist.keras_repairs.coupling.output_rows import traced_outputs
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState
from tfdist.keras_repairs.coupling.trials.steps.step_capture import capturing
from tfdist.keras_repairs.coupling.trials.steps.step_methods import replaced_methods
from tfdist.keras_repairs.coupling.trials.steps.step_trial import try_out, try_out_prediction
from tfdist.keras_repairs.coupling.trials.steps.step_verdict import Cause, StepVerdict
from tfdist.keras_repairs.model_checks.model_facts import has_unbuilt_trackers, unbuilt_parts
from tfdist.keras_repairs.sharding_policies.shards import cuts_parameters
from tfdist.runtime import random_state
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
    Cause.BRANCH: (
        "Each replica would decide by its own samples. Compute what decides in a function and call "
        "tfdist.gathered(function)(tensors), which takes the rows of all replicas."
    ),
    Cause.WRITTEN: (
        "It is neither the same for all samples, nor a row for each, nor a scalar that is a mean over them. Put what "
        "computes and writes it into a function and call tfdist.gathered(function)(tensors), which has the rows of all "
        "replicas and writes once."
    ),
    Cause.UNEQUAL: (
        "It takes the gradient of a gradient through BatchNormalization or tfdist.gathered(...), which replicas can "
        "share out if all have as many samples. Compute the penalty in a method of its own that is called outside of "
        "the model's call, which is gathered then, or in tfdist.gathered(penalty)(x); or give batches that are known "
        "to divide by the replicas (arrays whose length does, drop_remainder=True)."
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


_BRANCHES = StepVerdict(Cause.BRANCH, WHICH_BRANCH)

_ONE_DEVICE = "Or run on one device (`tfdist train` without --workers, --nproc and --logical-devices)."


def tried_out(model: keras.Model, step_function: Step, step: Step) -> Step:
    """`step`, which tries `step_function` out when it is first traced for data of a kind.

    That is before it is traced; where something of the model is not built yet, which must not happen in a trial, after
    a trace that builds it. A step that runs eagerly, and only so, is tried out when it has run once. The trial finds
    the cheapest way in which replicas share the step out exactly; where there is none, every replica runs the whole
    step.

    Args:
        model: Compiled, under a strategy of several replicas.
        step_function: Its `train_step` or `test_step`.
        step: What calls it, whole where a `ReplicaStep` asks for that.

    Returns:
        A step that raises UnsupportedError where replicas cannot do what it does at all.
    """
    name = f"{type(model).__qualname__}.{step_function.__name__}"
    verdicts: dict[str, StepVerdict] = {}

    def repaired(data: Any) -> Any:
        if not settings_of(model.distribute_strategy).gather:
            warn_once(f"gather: off. {name} is not tried out: scalars that it computes are averaged over the replicas.")
            return step(data)
        if this_step().trace.builds or this_step().mode.on_global_batch:
            return step(data)
        kind = _kind_in(verdicts, data)

        def note_branch() -> None:
            verdicts[kind] = _of_a_branch(model, step_function, data, verdicts.get(kind))

        if kind not in verdicts and (not tf.executing_eagerly() or not unbuilt_parts(model, with_metrics=True)):
            verdict = _looked_through(model, step_function, data, _trial(model, step_function, data))
            if verdict.cause is not Cause.FAILED or tf.executing_eagerly():
                verdicts[kind] = verdict
        if kind in verdicts:
            shared = _shared_out(name, model, verdicts[kind])
            try:
                with replica_step(shared), replaced_methods(model, shared.mode.gathered_methods, _gathered):
                    return without_branches(lambda: step(data), note_branch)
            except UnsupportedError as error:
                verdicts[kind] = _not_gathered(shared.mode.gathered_methods, error)
                raise TraceAgain from error
        try:
            outputs = without_branches(lambda: step(data), note_branch)
        except UnsupportedError as error:
            if tf.executing_eagerly() or isinstance(error, UnclearSizeError):
                raise
            # What replicas cannot do with a part of the rows each, such as to shuffle their numbers, they can with all.
            verdicts[kind] = _trial(model, step_function, data)
            raise TraceAgain from None
        verdict = _trial(model, step_function, data)
        verdicts[kind], differing = verdict, _differs_from_trace(verdict)
        if not differing:
            return outputs
        if tf.executing_eagerly():
            raise refusal(name, model, StepVerdict(Cause.UNBUILT, differing))
        raise TraceAgain

    return repaired


class EagerBranches:
    """Tells whether a step of Keras's that runs eagerly takes a branch by the values of its data, outside of what is
    looked at by itself; it is asked once for each kind of data.

    Args:
        model: Compiled.
        step_function: Its step.
    """

    def __init__(self, model: keras.Model, step_function: Step) -> None:
        self._model, self._step_function = model, step_function
        self._known: dict[str, bool] = {}

    def are_decided_by(self, data: Any) -> bool:
        """Returns whether the values of its data decide; False as long as the model has parts that are not built."""
        kind = kind_of(data)
        if kind not in self._known:
            if unbuilt_parts(self._model, with_metrics=True) or has_unbuilt_trackers(self._model):
                return False
            self._known[kind] = _branches(self._model, self._step_function, data)
        return self._known[kind]


def _kind_in(verdicts: Mapping[str, StepVerdict], data: Any) -> str:
    """The kind of data, and another one for shares that may differ, where what was found holds for equal ones alone."""
    kind = kind_of(data)
    holds = kind not in verdicts or not verdicts[kind].needs_equal_shares or this_step().share.is_equal
    return kind if holds else f"{kind}, of shares that may differ"


def _trial(model: keras.Model, step_function: Step, data: Any, *, summed_at_tape: bool = False) -> StepVerdict:
    are_equal = this_step().share.is_equal
    return try_out(model, step_function, data, _gathered, are_equal=are_equal, summed_at_tape=summed_at_tape)


def _gathered(_: str, method: Step) -> Step:
    return DeclaredFunction(method, Declared.GATHERED)


def _not_gathered(methods: Sequence[str], error: UnsupportedError) -> StepVerdict:
    """The verdict of a step of which replicas cannot gather methods where it is traced.

    Raises:
        UnsupportedError: The one that is given: there are none, or the step runs eagerly.
    """
    if not methods or tf.executing_eagerly():
        raise error
    return StepVerdict(Cause.COUPLED, f"what its methods {', '.join(methods)} return")


def _differs_from_trace(verdict: StepVerdict) -> str:
    """What of a step was traced as if it were counted by samples and is to be otherwise; empty where nothing is."""
    if verdict.mode != Mode():
        return "what its optimizers get as gradients"
    if this_step().share.static_rows is not None and _has_vectors_of_batch(verdict):
        return "what its metrics are updated with"
    return "" if _mode_of(verdict) == Mode() else verdict.what


def _of_a_branch(model: keras.Model, step_function: Step, data: Any, before: StepVerdict | None) -> StepVerdict:
    """The verdict of a step in which the batch decides: by the gradients of all replicas each decides as one device
    does; where something else decides, every replica runs the whole step."""
    if before is not None and (
        before.cause is not Cause.EXACT or before.mode.sums_at_tape or before.mode.gathered_methods
    ):
        return _BRANCHES
    summed = _trial(model, step_function, data, summed_at_tape=True)
    return summed if summed.cause is Cause.EXACT and summed.mode.sums_at_tape else _BRANCHES


def _looked_through(model: keras.Model, step_function: Step, data: Any, shown: StepVerdict) -> StepVerdict:
    """The verdict of a trial, and of branches where the step runs eagerly, so that no trace of it will find them."""
    is_branching = shown.cause is Cause.EXACT and tf.executing_eagerly() and _branches(model, step_function, data)
    return _BRANCHES if is_branching else shown


def _branches(model: keras.Model, step_function: Step, data: Any) -> bool:
    """Returns whether a step that runs eagerly takes a branch by the values of its data, outside of the layers and
    losses that are looked at by themselves; nothing of it is applied."""
    with KeptState(model, step_function).restored(), capturing(1.0):
        return takes_branches(step_function, (data,), {}, is_step=True)


def _shared_out(name: str, model: keras.Model, verdict: StepVerdict) -> ReplicaStep:
    """The step of the replica that is traced, shared out as a trial has shown.

    Raises:
        UnsupportedError: Replicas cannot assign what it assigns.
    """
    if verdict.cause is Cause.SHARED:
        raise refusal(name, model, verdict)
    mode = _mode_of(verdict)
    if mode.sums_at_tape and (cuts_parameters() or settings_of(model.distribute_strategy).has_tables):
        mode = Mode(on_global_batch=True)
        _say_whole(name, model, "gradients are parts where a tape gives them (--shard zero3, --shard-embeddings).")
    elif mode.on_global_batch:
        _say_whole(name, model, _found_in(verdict))
    return replace(this_step(), mode=mode, known=KnownOfStep(verdict.updates, verdict.gathered))


def _mode_of(verdict: StepVerdict) -> Mode:
    if verdict.cause is Cause.EXACT or (verdict.cause is Cause.FAILED and this_step().noted.declares_scalars):
        return verdict.mode
    return Mode(on_global_batch=True)


def _found_in(verdict: StepVerdict) -> str:
    if verdict.cause is not Cause.FAILED:
        return f"{verdict.what} would not be that of one device. {_MENDING[verdict.cause]}"
    return (
        f"it could not be tried out on a few made-up samples ({verdict.what}). Where its losses are means over the "
        "samples, say so: loss = tfdist.averaged(loss); where they are sums, loss = tfdist.summed(loss)."
    )


def _say_whole(name: str, model: keras.Model, found: str) -> None:
    warn_once(
        f"{name} of {model.name!r} runs whole on every replica, with the samples of all of them: exact, and no faster "
        f"than one device. Of a part of the samples on each, {found}"
    )


def kind_of(data: Any) -> str:
    """Returns what decides how a step computes with its data, but for the number of rows and the values."""
    return str(tf.nest.map_structure(_kind, data))


def _kind(leaf: Any) -> Any:
    return type(leaf).__name__, getattr(leaf, "shape", ())[1:], getattr(leaf, "dtype", None)


def _has_vectors_of_batch(verdict: StepVerdict) -> bool:
    return any(update.has_vector_of_batch for updates in verdict.updates.values() for update in updates)


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
            shown = try_out_prediction(model, step_function, data)
            verdicts[kind] = _looked_through(model, step_function, data, shown)
        verdict = verdicts[kind]
        if verdict.cause is Cause.SHARED:
            raise refusal(name, model, verdict)
        if verdict.has_constants and this_step().share.static_rows is not None:
            raise _of_constants(name, model)
        if verdict.cause is Cause.EXACT:
            return without_branches(lambda: step_function(data), lambda: verdicts.update({kind: _BRANCHES}))
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
