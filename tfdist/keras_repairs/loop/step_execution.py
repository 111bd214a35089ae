"""Runs the steps of a model over an iterator on several replicas: compiled, and several at once."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, Protocol

import tensorflow as tf
from keras.src.backend.tensorflow import trainer as trainer_module

from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.base.replica_step import TraceAgain
from tfdist.keras_repairs.first_step.checked_step import CheckedStep, full_size
from tfdist.keras_repairs.inputs.epoch_iterator import BatchIterator, FetchedBatch
from tfdist.keras_repairs.loop.fit_listeners import FitListener, TrainerMethod, run_notifying
from tfdist.keras_repairs.loop.multi_step_execution import MultiStepExecutor
from tfdist.keras_repairs.loop.xla_step import XlaStep, XlaSteps, may_be_compiled
from tfdist.keras_repairs.model_checks.model_facts import has_unbuilt_trackers, unbuilt_parts
from tfdist.keras_repairs.sharding_policies.shards import stored_shards
from tfdist.runtime.batches.replica_batches import ReplicaBatch
from tfdist.runtime.collectives.decisions import all_reduce
from tfdist.runtime.free_memory import return_free_memory

Function = Callable[..., Any]

_LARGE = 256 << 20
"""Bytes of weights that are cut between workers, in full, from which on steps are run batch by batch.

TensorFlow keeps two more copies of a step's graph for a function of the iterator, 140 MiB for a network like GPT-2, and
takes a millisecond to fetch a batch outside of one: less than a hundredth of such a step.
"""


class StepFunction(Protocol):
    """One step as each replica runs it."""

    can_loop: bool
    """True if several steps can run in one execution, as far as the traces so far tell."""

    def __call__(self, batch: Any) -> Any: ...

    def with_piece(self, batch: Any, run: Callable[[ReplicaBatch], Any]) -> Any: ...

    def of_piece(self, batch: ReplicaBatch, *, compiles: bool) -> Any: ...


def execution(
    model: Any,
    step: StepFunction,
    call: TrainerMethod,
    listener: FitListener,
    checked: CheckedStep,
    uncompiled: StepFunction,
) -> Function:
    """The function that Keras calls with an iterator for every `steps_per_execution` steps.

    Args:
        model: A compiled model, under a strategy of several replicas.
        step: One step, as each replica runs it.
        call: The method whose steps these are.
        listener: Notified of every execution.
        checked: Checks the first step of each kind.
        uncompiled: The step as each replica runs it where XLA compiles nothing of it, which is what is checked.
    """
    steps_of_model = _Steps(model, step, checked, uncompiled)

    def run(batches: BatchIterator, steps: int) -> Any:
        if not batches.is_checked:
            if not checked.knows(batches.spec):
                steps_of_model.check(batches.peeked)
            batches.is_checked = not checked.needs_more_rows(batches.spec)
        if steps > 1 and not batches.is_checked:  # Each batch is looked at until one has more rows.
            run(batches, 1)
            return run(batches, steps - 1)
        outputs = run_notifying(listener, call, steps, lambda: steps_of_model.run(batches, steps))
        steps_of_model.run_one.return_memory()
        return outputs

    def run_one(batch: Any) -> Any:
        steps_of_model.check(lambda: batch)
        outputs = run_notifying(listener, call, 1, lambda: steps_of_model.run_one(batch))
        steps_of_model.run_one.return_memory()
        return outputs

    executor = MultiStepExecutor(run, lambda seconds: float(all_reduce(seconds, "max", model.distribute_strategy)))
    state = fit_state(model)
    if call == "fit":
        state.unreported_steps = lambda: executor.unreported
        state.trace_step = steps_of_model.trace_for

    def execute(iterator: Any) -> Any:
        checked.note_batches(iterator.whole_spec if isinstance(iterator, BatchIterator) else None)
        steps = model.steps_per_execution
        if isinstance(iterator, BatchIterator) and iterator.left is not None and not model.run_eagerly:
            if steps == 1:
                # Where training is to stop already, Keras stops after the next batch.
                watched = call != "fit" or state.watches_batches or not step.can_loop or model.stop_training
                return executor(iterator, watched=watched, most=state.steps_until_due if call == "fit" else 1)
            return run(iterator, iterator.take(steps))
        # Batch by batch: in the last execution there may be fewer than `steps`, but never none.
        outputs = run_one(next(iterator))
        for _, batch in zip(range(steps - 1), _until_end(iterator), strict=False):
            outputs = run_one(batch)
        return outputs

    return execute


class _Steps:
    """The steps of a model, made anew where a check has the replicas share them out in another way.

    Args:
        model: Compiled.
        step: One step, as each replica runs it.
        checked: Checks the first of each kind.
        uncompiled: The step as each replica runs it where XLA compiles nothing of it.
    """

    run_one: OneStep | XlaSteps
    _to_check: OneStep

    def __init__(self, model: Any, step: StepFunction, checked: CheckedStep, uncompiled: StepFunction) -> None:
        self._model = model
        self._step = step
        self._checked = checked
        self._uncompiled = uncompiled
        self._make()

    def _make(self) -> None:
        self.run_one = _chosen_step(self._model, self._step)
        self.run = _steps_of_batches(self.run_one, self._step, by_batch=full_size(self._model) >= _LARGE)
        if self._model.jit_compile or not isinstance(self.run_one, OneStep):
            self._to_check = OneStep(self._model, self._uncompiled, "auto")
        else:
            self._to_check = self.run_one

    def trace_for(self, spec: Any) -> None:
        """Traces a step for batches of an iterator with this spec, and runs nothing."""
        (self.run_one if isinstance(self.run_one, OneStep) else self.run_one.run_in_parts).trace_for(spec)

    def check(self, batch_of: Callable[[], Any]) -> None:
        """Checks the step with a batch, where it is the first of its kind."""
        if self._checked.is_off:
            return
        batch = batch_of()
        while self._checked.is_due(batch) and self._checked.is_shared_anew(batch, self._to_check):
            self._make()


class PredictingSteps(_Steps):
    """The steps of `predict`, whose outputs are joined in the order of the rows; see `_Steps`."""

    def _make(self) -> None:
        self.run_one = OneStep(self._model, self._step, "concat")
        is_compiled = bool(self._model.jit_compile)
        self._to_check = OneStep(self._model, self._uncompiled, "concat") if is_compiled else self.run_one

    def __call__(self, batch: Any) -> Any:
        """Returns what the replicas predict of a batch."""
        self.check(lambda: batch)
        return self.run_one(batch)


def _chosen_step(model: Any, step: StepFunction) -> OneStep | XlaSteps:
    """Returns what runs one step: compiled as a whole by XLA, with the sums over the workers, where that can be."""
    in_parts = OneStep(model, step, "auto")
    if not may_be_compiled(model):
        return in_parts
    compiled = XlaStep(functools.partial(step.of_piece, compiles=False), model.distribute_strategy)
    return XlaSteps(model, compiled, OneStep(model, lambda batch: step.with_piece(batch, compiled), "auto"), in_parts)


def _steps_of_batches(
    one_step: OneStep | XlaSteps, step: StepFunction, *, by_batch: bool
) -> Callable[[BatchIterator, int], Any]:
    """A function that runs a number of steps of an iterator, in one execution where that is possible.

    Args:
        one_step: Runs one.
        step: One step, as each replica runs it.
        by_batch: Whether each step is given its batch, and no function is made of an iterator.
    """
    if isinstance(one_step, OneStep):
        return _steps_by(one_step, step, by_batch=by_batch)
    in_parts = _steps_by(one_step.run_in_parts, step, by_batch=by_batch)
    whole = _steps_by(one_step.run_compiled, step, by_batch=by_batch)

    def run(batches: BatchIterator, steps: int) -> Any:
        compiles = not batches.is_whole and one_step.compiles(batches.spec)
        if compiles is False:
            return in_parts(batches, steps)
        even = batches.even_among(steps) if compiles else 0
        outputs = whole(batches, even) if even else None
        for _ in range(steps - even):
            outputs = one_step(batches.fetched())
        return outputs

    return run


def _steps_by(one_step: Function, step: StepFunction, *, by_batch: bool) -> Callable[[BatchIterator, int], Any]:
    def several_steps(iterator: Any, steps: tf.Tensor) -> Any:
        tf.while_loop(
            lambda done: done + 1 < steps, lambda done: _after(one_step(_next_of(iterator)), done + 1), [tf.constant(0)]
        )
        return one_step(_next_of(iterator))

    from_one = _FromIterator(lambda iterator: one_step(_next_of(iterator)))
    from_several = _FromIterator(several_steps)

    def run(batches: BatchIterator, steps: int) -> Any:
        while by_batch or batches.is_whole or batches.has_peeked:
            outputs, steps = one_step(batches.fetched()), steps - 1
            if not steps:
                return outputs
        if steps > 1 and step.can_loop:
            return from_several(batches, steps, tf.constant(steps))
        for _ in range(steps):
            outputs = from_one(batches, 1)
        return outputs

    return run


def _next_of(iterator: Any) -> FetchedBatch:
    """The next batch, with the spec by which it has the same trace as one that is fetched outside of the function."""
    return FetchedBatch(next(iterator), iterator.element_spec)


class _FromIterator:
    """A compiled function of a distributed iterator, called with the iterator's tensors.

    TensorFlow takes a millisecond to find that an iterator is of the same type as the last, and no time for tensors.
    The bound functions stay with the `BatchIterator`: this object lives as long as the model, and must keep no data.
    """

    def __init__(self, function: Function) -> None:
        self._function = function
        self._compiled: dict[Any, Function] = {}

    def __call__(self, batches: BatchIterator, steps: int, *tensors: tf.Tensor) -> Any:
        batches.draw(steps)
        call = batches.calls.get(self)
        if call is None:
            call = batches.calls[self] = self._for(batches.iterator)
        try:
            return call(*tensors)
        except tf.errors.OutOfRangeError:
            batches.check_end()
            raise

    def _for(self, iterator: Any) -> Function:
        parts = tf.nest.flatten(iterator, expand_composites=True)
        kind = tf.type_spec_from_value(iterator)
        if kind not in self._compiled:

            def from_parts(parts: list[tf.Tensor], *tensors: tf.Tensor) -> Any:
                return self._function(tf.nest.pack_sequence_as(kind, parts, expand_composites=True), *tensors)

            self._compiled[kind] = tf.function(from_parts, reduce_retracing=True, autograph=False)
        return functools.partial(self._compiled[kind], parts)


class OneStep:
    """Runs a step with one batch on all replicas of this worker, compiled once for each kind of batch.

    Args:
        model: A compiled model.
        step: One step, as each replica runs it.
        reduction: How the outputs of the replicas become one, as Keras names it: `"auto"` or `"concat"`.
        jit_compile: Whether XLA compiles the step as a whole, which it can on one replica.
    """

    def __init__(self, model: Any, step: Function, reduction: str, *, jit_compile: bool = False) -> None:
        self._model = model
        self._step = step
        self._reduction = reduction
        self._compile = functools.partial(tf.function, autograph=False, jit_compile=jit_compile or None)
        self._by_spec: list[tuple[Any, Any]] = []
        self._is_built = False
        self._was_traced = False

    def __call__(self, batch: Any) -> Any:
        """The outputs of the step with a batch, a `FetchedBatch` or another one."""
        if self._model.run_eagerly:
            self._build(batch)
            return self._on_values(_values(batch))
        self._was_traced |= not tf.executing_eagerly()  # by a function of an iterator
        return self._traced(_spec_of(batch), lambda function: function(_values(batch)))

    def trace(self, batch: Any) -> Any:
        """Traces the step as for a call with the batch, and runs nothing; returns the function, None if it is eager."""
        if self._model.run_eagerly:
            self._build(batch)
            return None
        return self._traced(_spec_of(batch), lambda function: function.get_concrete_function(_values(batch)))

    def trace_for(self, spec: Any) -> None:
        """Traces the step for batches of an iterator with this spec, and runs nothing."""
        self._traced(spec, lambda function: function.get_concrete_function())

    def _build(self, batch: Any) -> None:
        """Traces a step that is to run eagerly where that builds something.

        What is built while it runs is not yet looked at: whether it takes a sample by the others, say.
        """
        if self._is_built or not (unbuilt_parts(self._model, with_metrics=True) or has_unbuilt_trackers(self._model)):
            return
        self._is_built = True
        # A step that cannot be traced builds what it lacks when it runs.
        with contextlib.suppress(Exception):
            self._compile(self._on_values).get_concrete_function(_values(batch))

    def _traced(self, spec: Any, use: Callable[[Any], Any]) -> Any:
        while True:
            try:
                return use(self._of_spec(spec))
            except TraceAgain:
                # A step asks for each kind of trace once. In the first trace of a function alone it may create
                # variables, such as those of an optimizer of its own.
                self._by_spec.clear()

    def _of_spec(self, spec: Any) -> Any:
        for known, function in self._by_spec:
            if known == spec:
                return function
        options = {"reduce_retracing": True} if spec is None else {"input_signature": [spec]}
        self._by_spec.append((spec, self._compile(self._on_values, **options)))
        return self._by_spec[-1][1]

    def _on_values(self, values: Any) -> Any:
        strategy = self._model.distribute_strategy
        outputs = trainer_module.reduce_per_replica(
            strategy.run(self._step, args=(values,)), strategy, self._reduction
        )
        if not tf.executing_eagerly():
            # Trials of a model whose weights are cut have had them in full.
            self._was_traced = True
            self._return_memory()
        return outputs

    def return_memory(self) -> None:
        """Returns memory that a trace has left free, if the step was traced since the last call."""
        if self._was_traced:
            self._was_traced = False
            self._return_memory()

    def _return_memory(self) -> None:
        if stored_shards(self._model):
            return_free_memory()


def _spec_of(batch: Any) -> Any:
    return batch.spec if isinstance(batch, FetchedBatch) else None


def _values(batch: Any) -> Any:
    return batch.values if isinstance(batch, FetchedBatch) else batch


def _after(outputs: Any, value: tf.Tensor) -> tf.Tensor:
    with tf.control_dependencies([leaf for leaf in tf.nest.flatten(outputs) if isinstance(leaf, tf.Tensor)]):
        return tf.identity(value)


def _until_end(iterator: Any) -> Any:
    try:
        yield from iterator
    except tf.errors.OutOfRangeError:
        return
