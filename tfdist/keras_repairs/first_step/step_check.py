"""Checks one kind of step of a model: what replicas compute of a few rows, against what one device computes of them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.base import global_seeds, tensorflow_seeds
from tfdist.keras_repairs.base.batch_rows import rows, static_rows
from tfdist.keras_repairs.base.draw_streams import DrawStreams
from tfdist.keras_repairs.base.model_optimizers import optimizers_of
from tfdist.keras_repairs.base.replica_copies import on_global_batch
from tfdist.keras_repairs.base.replica_step import ReplicaStep, on_global_batch_step, replica_id, replica_step
from tfdist.keras_repairs.base.step_records import BatchShare
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState
from tfdist.keras_repairs.coupling.trials.kept_tensors import in_step_of
from tfdist.keras_repairs.coupling.trials.split_comparison import tolerance_of
from tfdist.keras_repairs.first_step.few_rows import few_rows_of, is_of_any_size, may_leave_replicas_out, rows_of_all
from tfdist.keras_repairs.first_step.rounding_bounds import Finding, RoundingBounds
from tfdist.keras_repairs.first_step.variable_values import (
    Values,
    VariableValues,
    differences,
    least_move,
    moved_a_little,
    spreads,
)
from tfdist.keras_repairs.optimizer import gradient_accumulation
from tfdist.keras_repairs.optimizer.gradient_accumulation import inner_of
from tfdist.keras_repairs.sharding_policies.optimizer_policy import is_sharded
from tfdist.keras_repairs.writes.global_values import writing_nothing
from tfdist.runtime.collectives.decisions import all_reduce
from tfdist.runtime.workers import local_replicas

Step = Callable[[Any], Any]

_PERTURBATIONS = 4
"""A number that comes to lie on the other side of a kink (of a ReLU, a maximum) changes a gradient by a leap, and one
in many does."""


@dataclass(frozen=True)
class Outcome:
    """The values that a way of making a step has left.

    Attributes:
        variables: The values of variables after it.
        outputs: What it returns, by name.
    """

    variables: Values
    outputs: Values

    @property
    def all(self) -> dict[str, NDArray]:
        """Both, by name."""
        named = {f"what it returns{name and f' as {name}'}": value for name, value in self.outputs.items()}
        return {**self.variables, **named}


@dataclass(frozen=True)
class _Case:
    """The inputs with which a step is made.

    Attributes:
        batch: Of the replicas.
        data: The rows of all of them.
        is_due: Whether it is made twice, the second time as the last step before accumulated gradients are applied, or
            averages overwrite weights.
    """

    batch: Any
    data: Any
    is_due: bool = False


class CannotBeMadeError(Exception):
    """The script's own step fails on one replica, with the rows of all, as it is made for a check."""


class StepCheck:
    """The check of a step.

    Args:
        model: Compiled and built.
        step_function: Its `train_step` or its kin, as one device calls it.
        variables: What the step may change.
        results: The names of outputs that are results of metrics, which each replica has for itself.
        streams: What the step draws with seeds of the script's.
    """

    def __init__(
        self,
        model: keras.Model,
        step_function: Step,
        variables: VariableValues,
        results: Callable[[], Collection[str]],
        streams: DrawStreams | None = None,
    ) -> None:
        self._streams = streams
        self._model = model
        self._step_function = step_function
        self._strategy = model.distribute_strategy
        self._results = results
        self._values = variables
        self._function: Callable[[Any], Any] = self._on_replicas
        self._tolerance = tolerance_of(model)
        self._least_move = least_move({layer.compute_dtype for layer in model._flatten_layers()})
        self._needs_all = _needs_all(model)
        self._period = max((_period_of(optimizer) for optimizer in optimizers_of(model)), default=1)
        self._failure = ""
        self._is_chief = local_replicas(self._strategy).start == 0
        self._has_counted = False
        self._before: Values = {}

    def run(self, batch: Any, step: Callable[[Any], Any]) -> Finding | str | None:
        """Returns what differs most between one device and the replicas, on all workers where it does on one; None
        where nothing does. All workers call it together.

        Args:
            batch: The first batch.
            step: Makes the step of all replicas with such a batch.

        Raises:
            CannotBeMadeError: One device cannot make the step, as it seems.
        """
        with _without_tensor_float_32(), writing_nothing(self._strategy):
            return self._run(batch, step)

    def _run(self, batch: Any, step: Callable[[Any], Any]) -> Finding | str | None:
        self._before = before = self._values.of_all()
        of_metrics = [variable for metric in self._model._metrics for variable in metric.variables]
        counts = self._values.names_of(variable._value for variable in [*self._model.metrics_variables, *of_metrics])
        self._has_counted = any(before[name].any() for name in counts)
        state = self._values.read()
        try:
            few, data, expected = self._made_alone(batch, state)
            finding = self._compared(_Case(few, data), step, before, state, expected)
            if finding is None and self._period > 1:
                case = _Case(few, data, is_due=True)
                self._values.write(state)
                finding = self._compared(case, step, before, state, self._of_one_device(case))
            return finding or self._of_one_row(batch, step, before, state)
        finally:
            self._values.write(state)

    def _compared(
        self, case: _Case, step: Callable[[Any], Any], before: Values, state: Sequence[NDArray], expected: Outcome
    ) -> Finding | str | None:
        """Returns what the replicas make of a case in another way than one device."""
        self._values.write(state)
        made = self._outcome(self._made(case, lambda: step(case.batch)))
        copies = [made.all, *self._values.of_other_replicas()]
        suspects = [part for part in self._parted(before, expected, copies).values() if part > self._tolerance]
        if not self._is_so_somewhere(bool(suspects)):
            return None
        finding = self._beyond_rounding(case, before, state, expected, copies)
        # What follows is done together. Each worker names what it found itself.
        is_found = self._is_so_somewhere(finding is not None)
        return (finding or "what the log of another worker names") if is_found else None

    @staticmethod
    def _parted(before: Values, expected: Outcome, copies: Sequence[Values]) -> dict[str, float]:
        """By how much what one device makes differs from what the replicas make, in the copies that differ most."""
        zeros, users = _with_zeros(before, expected.all), _of_users(expected.all)
        of_replicas = [differences(zeros, users, one) for one in copies]
        return {name: max(one.get(name, 0.0) for one in of_replicas) for name in of_replicas[0]}

    def _of_one_row(
        self, batch: Any, step: Callable[[Any], Any], before: Values, state: Sequence[NDArray]
    ) -> Finding | str | None:
        """Returns what differs with a batch of one row, where there may be batches of which a replica has no sample."""
        if not may_leave_replicas_out(batch, self._strategy):
            return None
        one = few_rows_of(batch, self._strategy, only_one=True)
        case = _Case(one, rows_of_all(one, self._strategy))
        self._values.write(state)
        expected = self._tried(case)
        if self._is_so_somewhere(expected is None) or expected is None:
            return None
        return self._compared(case, step, before, state, expected)

    def _made_alone(self, batch: Any, state: Sequence[NDArray]) -> tuple[Any, Any, Outcome]:
        """Returns what one device makes of a few rows, or of the whole batch where a step cannot be made with a few.

        Returns:
            The batch that it is, the data of all its rows, and what comes of them.

        Raises:
            CannotBeMadeError: Nor can it be made with the whole batch.
        """
        some = few_rows_of(batch, self._strategy)
        for few in (some,) if some is batch else (some, batch):
            data = rows_of_all(few, self._strategy)
            self._function = self._function_of(data, is_of_any_size(few))
            expected = self._tried(_Case(few, data))
            if not self._is_so_somewhere(expected is None) and expected is not None:
                return few, data, expected
            self._values.write(state)
        raise CannotBeMadeError(self._failure)

    def _tried(self, case: _Case) -> Outcome | None:
        """Returns what one device makes of a case; None where the user's step fails, which may take some sizes
        alone."""
        try:
            return self._of_one_device(case)
        except Exception as error:
            self._failure = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            return None

    def _beyond_rounding(
        self,
        case: _Case,
        before: Values,
        state: Sequence[NDArray],
        expected: Outcome,
        copies: Sequence[Values],
    ) -> Finding | None:
        """Returns what of the differences is more than rounding, by what moving all numbers a little does on one
        device."""
        zeros, users = _with_zeros(before, expected.all), _of_users(expected.all)
        bounds = self._bounds(before, expected, copies)
        moves = []
        for seed in range(_PERTURBATIONS):
            self._values.write(state)
            self._values.perturb(seed, self._least_move)
            moved = self._of_one_device(_perturbed(case, seed, self._least_move))
            moves.append(differences(zeros, users, moved.all))
            bounds.widen(moves[-1])
            if not self._is_so_somewhere(bool(bounds.beyond)):
                return None
        self._values.write(state)
        bounds = self._bounds(before, self._of_one_device_optimized(case), copies)
        for move in moves:
            bounds.widen(move)
        return max(bounds.beyond, key=lambda one: one.difference / one.bound, default=None)

    def _bounds(self, before: Values, expected: Outcome, copies: Sequence[Values]) -> RoundingBounds:
        parted = self._parted(before, expected, copies)
        spread = spreads(_with_zeros(before, expected.all), _of_users(expected.all), copies[0])
        trained = self._values.names_of(variable._value for variable in self._model.trainable_variables)
        return RoundingBounds(parted, spread, trained, self._tolerance)

    def _is_so_somewhere(self, is_so: bool) -> bool:
        """Returns whether it is on some worker: hosts may round otherwise, and what follows they do together."""
        return bool(all_reduce(float(is_so), "max", self._strategy))

    def _outcome(self, outputs: Any, *, is_together: bool = False) -> Outcome:
        # Logs may be computed from the results of metrics. Where one device makes the step the first replica alone
        # updates them, and it has its own part alone of what they have counted before.
        are_known = not isinstance(outputs, dict) or (self._is_chief and not self._has_counted)
        # The workers read the results together.
        named = _by_name(outputs, self._results())
        return Outcome(self._values.of_all(is_together=is_together), named if are_known else {})

    def _of_one_device(self, case: _Case) -> Outcome:
        """Returns what one device computes: the script's own step on all rows, on the first replica alone where it
        can."""
        with _not_optimized():
            return self._of_function(case, self._function)

    def _of_one_device_optimized(self, case: _Case) -> Outcome:
        """`_of_one_device`, with its graph optimized as that of the replicas is.

        Where numbers overflow that decides what is left of them, and which are none.
        """
        return self._of_function(case, self._function_of(case.data, is_of_any_size(case.batch)))

    def _of_function(self, case: _Case, function: Callable[[Any], Any]) -> Outcome:
        self._values.put_together(self._before)
        with _leaving_no_trace(self._model, self._step_function):
            outputs = self._made(case, lambda: function(case.data))
            return self._outcome(outputs, is_together=True)

    def _made(self, case: _Case, make: Callable[[], Any]) -> Any:
        """The step made once, and where that is asked for once more as the last of a period."""
        outputs = make()
        if not case.is_due:
            return outputs
        for optimizer in optimizers_of(self._model):
            for copy in self._strategy.experimental_local_results(inner_of(optimizer)._iterations._value):
                copy.assign(_period_of(optimizer) - 1, read_value=False)
        return make()

    def _function_of(self, data: Any, any_size: bool) -> Callable[[Any], Any]:
        """The step as one device makes it: traced as Keras traces it, where the model does not run eagerly."""
        if self._model.run_eagerly:
            return self._on_replicas
        is_given = tf.nest.map_structure(lambda leaf: leaf is not None, data)

        def on_given(given: Sequence[Any]) -> Any:
            leaves = iter(given)
            return self._on_replicas(tf.nest.map_structure(lambda there: next(leaves) if there else None, is_given))

        # TensorFlow takes no None in a signature.
        specs = [_spec_of(leaf, any_size) for leaf in _given(data)]
        function = tf.function(on_given, autograph=False, input_signature=[specs])
        return lambda data: function(_given(data))

    def _on_replicas(self, data: Any) -> Any:
        outputs: list[Any] = []

        def on_replica(data: Any) -> None:
            is_first = int(tf.get_static_value(replica_id())) == local_replicas(self._strategy).start
            if is_first or self._needs_all:
                made = self._global_batch_step(data)
                outputs.extend([made] if is_first else [])

        self._strategy.run(tf.autograph.experimental.do_not_convert(on_replica), args=(data,))
        return outputs[0]

    def _global_batch_step(self, data: Any) -> Any:
        total = rows(data)
        step = ReplicaStep(BatchShare(total, total, tf.constant(0, tf.int64), total, None, static_rows(data)))
        accumulating = gradient_accumulation.by_one_replica()
        if self._streams is not None:
            place = int(tf.get_static_value(replica_id())) - local_replicas(self._strategy).start
            tensorflow_seeds.draw_by(self._streams.of_replica(place, by_graph=not self._needs_all))
        with replica_step(step), in_step_of(self._model), on_global_batch_step(), on_global_batch(), accumulating:
            return self._step_function(data)


@contextlib.contextmanager
def _leaving_no_trace(*roots: Any) -> Iterator[None]:
    """Restores afterwards what the user's objects hold.

    Python's and NumPy's random numbers are not looked at: data may be drawn by them meanwhile, and a step may not draw.
    """
    with KeptState(*roots).restored(), global_seeds.borrowing():
        yield


@contextlib.contextmanager
def without_advice() -> Iterator[None]:
    """TensorFlow does not advise against running replicas eagerly, nor afterwards against gathers outside of functions.

    It counts these, and speaks of those of the check at one that comes later.
    """
    logger = tf.get_logger()
    logger.addFilter(_is_of_no_gather)
    logger.addFilter(_is_no_advice)
    try:
        yield
    finally:
        logger.removeFilter(_is_no_advice)


def _is_no_advice(record: logging.LogRecord) -> bool:
    """Returns whether TensorFlow says something else than that replicas run faster in a function."""
    return "eagerly has significant overhead" not in str(record.msg)


def _is_of_no_gather(record: logging.LogRecord) -> bool:
    """Returns whether TensorFlow says something else than that a check's function, or its gathering of rows, is traced
    anew."""
    message = record.getMessage()
    return "_batch_all_gather" not in message and "StepCheck." not in message


def _given(data: Any) -> list[Any]:
    """The parts of data that are there: `train_on_batch` need not be given targets or weights."""
    return [leaf for leaf in tf.nest.flatten(data) if leaf is not None]


@contextlib.contextmanager
def _without_tensor_float_32() -> Iterator[None]:
    """Factors of products keep their digits on a GPU, whose shapes else decide how they are rounded."""
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)


@contextlib.contextmanager
def _not_optimized() -> Iterator[None]:
    """Functions that are called inside for the first time are run as they were traced, which takes less time once."""
    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False, **before})


def _spec_of(leaf: Any, any_size: bool) -> Any:
    spec = tf.type_spec_from_value(leaf)
    if not any_size or not isinstance(spec, tf.TensorSpec) or not spec.shape.rank:
        return spec
    return tf.TensorSpec([None, *spec.shape[1:]], spec.dtype)


def _needs_all(model: keras.Model) -> bool:
    """Returns whether replicas meet in a step that each of them makes whole: where each keeps a part of an
    optimizer."""
    optimizer = getattr(model, "optimizer", None)
    return optimizer is not None and is_sharded(optimizer)


def _by_name(outputs: Any, left_out: Collection[str]) -> dict[str, NDArray]:
    found = {}
    for path, value in keras.tree.flatten_with_path(outputs):
        # Logs lie flat in the end; of several with one name the last is theirs.
        name = str(path[-1]) if isinstance(outputs, dict) and path else "/".join(map(str, path))
        if name not in left_out and isinstance(value, tf.Tensor | tf.Variable | np.ndarray):
            found[name] = np.asarray(value)
    return found


def _of_users(values: Values) -> Values:
    """The values without what tfdist notes of a step, which one device's own step does not know."""
    return {name: value for name, value in values.items() if not name.startswith("tfdist_")}


def _with_zeros(before: Values, values: Values) -> dict[str, NDArray]:
    """The values before a step; what it returns counts from zero."""
    return {name: before.get(name, np.zeros_like(value)) for name, value in values.items()}


def _period_of(optimizer: Any) -> int:
    """After how many steps an optimizer has done everything that it does."""
    inner = inner_of(optimizer)
    return (inner.gradient_accumulation_steps or 1) * ((inner.use_ema and inner.ema_overwrite_frequency) or 1)


def _perturbed(case: _Case, seed: int, least: float) -> _Case:
    """A case with each floating number moved by about a rounding error."""

    def moved(leaf: Any) -> Any:
        if not isinstance(leaf, tf.Tensor) or leaf.dtype not in (tf.float32, tf.float64):
            return leaf
        return tf.constant(moved_a_little(leaf.numpy(), np.random.RandomState(seed), least))

    return replace(case, data=tf.nest.map_structure(moved, case.data))
