"""Runs the steps of a model over an iterator on several replicas: compiled, and several at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

import tensorflow as tf
from keras.src.backend.tensorflow import trainer as trainer_module

from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.inputs.epoch_iterator import BatchIterator, FetchedBatch
from tfdist.keras_repairs.loop.fit_listeners import FitListener, TrainerMethod, run_notifying
from tfdist.keras_repairs.loop.multi_step_execution import MultiStepExecutor
from tfdist.runtime.collectives.decisions import all_reduce

Function = Callable[..., Any]


class TraceAgain(Exception):
    """Raised at the end of a step that is traced, where what it has shown asks for another trace, which is then made.

    The trace that it ends is thrown away before anything of it has run.
    """


class StepFunction(Protocol):
    """One step as each replica runs it."""

    can_loop: bool
    """Whether several steps can run in one execution, as far as the traces so far tell."""

    def __call__(self, batch: Any) -> Any: ...


def execution(model: Any, step: StepFunction, call: TrainerMethod, listener: FitListener) -> Function:
    """The function that Keras calls with an iterator for every `steps_per_execution` steps.

    Args:
        model: A compiled model, under a strategy of several replicas.
        step: One step, as each replica runs it.
        call: The method whose steps these are.
        listener: Notified of every execution.
    """
    one_step = one_step_of(model, step, "auto")
    run_steps = _steps_of_batches(one_step, step)

    def run(batches: BatchIterator, steps: int) -> Any:
        return run_notifying(listener, call, steps, lambda: run_steps(batches, steps))

    def run_one(batch: Any) -> Any:
        return run_notifying(listener, call, 1, lambda: one_step(batch))

    executor = MultiStepExecutor(run, lambda seconds: float(all_reduce(seconds, "max", model.distribute_strategy)))
    state = fit_state(model)
    if call == "fit":
        state.unreported_steps = lambda: executor.unreported

    def execute(iterator: Any) -> Any:
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


def _steps_of_batches(one_step: Function, step: StepFunction) -> Callable[[BatchIterator, int], Any]:
    """A function that runs a number of steps of an iterator, in one execution where that is possible."""

    def several_steps(iterator: Any, steps: tf.Tensor) -> Any:
        tf.while_loop(
            lambda done: done + 1 < steps, lambda done: _after(one_step(next(iterator)), done + 1), [tf.constant(0)]
        )
        return one_step(next(iterator))

    from_one = _FromIterator(lambda iterator: one_step(next(iterator)))
    from_several = _FromIterator(several_steps)

    def run(batches: BatchIterator, steps: int) -> Any:
        if steps > 1 and step.can_loop:
            return from_several(batches, tf.constant(steps))
        for _ in range(steps):
            outputs = from_one(batches)
        return outputs

    return run


class _FromIterator:
    """A compiled function of a distributed iterator, called with the iterator's tensors.

    TensorFlow takes a millisecond to find that an iterator is of the same type as the last, and no time for tensors.
    The bound functions stay with the `BatchIterator`: this object lives as long as the model, and must keep no data.
    """

    def __init__(self, function: Function) -> None:
        self._function = function
        self._compiled: dict[Any, Function] = {}

    def __call__(self, batches: BatchIterator, *tensors: tf.Tensor) -> Any:
        call = batches.calls.get(self)
        if call is None:
            call = batches.calls[self] = self._for(batches.iterator)
        return call(*tensors)

    def _for(self, iterator: Any) -> Function:
        parts = tf.nest.flatten(iterator, expand_composites=True)
        kind = tf.type_spec_from_value(iterator)
        if kind not in self._compiled:

            def from_parts(parts: list[tf.Tensor], *tensors: tf.Tensor) -> Any:
                return self._function(tf.nest.pack_sequence_as(kind, parts, expand_composites=True), *tensors)

            self._compiled[kind] = tf.function(from_parts, reduce_retracing=True, autograph=False)
        return functools.partial(self._compiled[kind], parts)


def one_step_of(model: Any, step: Function, reduction: str, *, jit_compile: bool = False) -> Function:
    """A function that runs `step` with one batch on all replicas of this worker, compiled once for each kind of batch.

    Args:
        model: A compiled model.
        step: One step, as each replica runs it.
        reduction: How the outputs of the replicas become one, as Keras names it: `"auto"` or `"concat"`.
        jit_compile: Whether XLA compiles the step as a whole, which it can on one replica.
    """
    strategy = model.distribute_strategy

    def on_values(values: Any) -> Any:
        return trainer_module.reduce_per_replica(strategy.run(step, args=(values,)), strategy, reduction)

    compile_step = functools.partial(tf.function, autograph=False, jit_compile=jit_compile or None)
    by_spec: list[tuple[Any, Function]] = []

    def of_spec(spec: Any) -> Function:
        for known, function in by_spec:
            if known == spec:
                return function
        options = {"reduce_retracing": True} if spec is None else {"input_signature": [spec]}
        by_spec.append((spec, compile_step(on_values, **options)))
        return by_spec[-1][1]

    def one_step(batch: Any) -> Any:
        is_fetched = isinstance(batch, FetchedBatch)
        values = batch.values if is_fetched else batch
        if model.run_eagerly:
            return on_values(values)
        while True:
            try:
                return of_spec(batch.spec if is_fetched else None)(values)
            except TraceAgain:
                # A step asks for each kind of trace once. In the first trace of a function alone it may create
                # variables, such as those of an optimizer of its own.
                by_spec.clear()

    return one_step


def _after(outputs: Any, value: tf.Tensor) -> tf.Tensor:
    with tf.control_dependencies([leaf for leaf in tf.nest.flatten(outputs) if isinstance(leaf, tf.Tensor)]):
        return tf.identity(value)


def _until_end(iterator: Any) -> Any:
    try:
        yield from iterator
    except tf.errors.OutOfRangeError:
        return
