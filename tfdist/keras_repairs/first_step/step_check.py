"""Checks one kind of step of a model: what replicas compute of a few rows, against what one device computes of them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.base import global_seeds
from tfdist.keras_repairs.base.batch_rows import rows, static_rows
from tfdist.keras_repairs.base.replica_step import ReplicaStep, on_whole_step, replica_id, replica_step
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState
from tfdist.keras_repairs.coupling.trials.kept_tensors import in_step_of
from tfdist.keras_repairs.coupling.trials.part_comparison import tolerance_of
from tfdist.keras_repairs.first_step.few_rows import few_rows_of, is_of_any_size, rows_of_all
from tfdist.keras_repairs.first_step.variable_values import (
    Values,
    VariableValues,
    differences,
    least_move,
    moved_a_little,
)
from tfdist.keras_repairs.optimizer import gradient_accumulation
from tfdist.keras_repairs.optimizer.variable_updates import of_whole_batch
from tfdist.keras_repairs.sharded_optimizer.optimizer_parts import is_cut
from tfdist.keras_repairs.writes.writing_replica import writing_nothing
from tfdist.runtime.collectives.decisions import all_reduce
from tfdist.runtime.workers import local_replicas

Step = Callable[[Any], Any]

_BEYOND_ROUNDING = 4.0
"""So many times what moving all numbers a little does to a result is more than rounding does."""

_LEAP = 10.0
"""What moves by more than so many times what the step changes in it is not changed by the step, but moved itself."""

_ALWAYS = 0.1
"""What moves by so much every time is nothing but rounding, as the bias of the keys of an attention layer, and says
nothing of others."""

_PERTURBATIONS = 4
"""A number that comes to lie on the other side of a kink (of a ReLU, a maximum) changes a gradient by a leap, and one
in many does."""


@dataclass(frozen=True)
class Outcome:
    """What a way of making a step has left.

    Attributes:
        variables: The values of variables after it.
        outputs: What it returns, by name.
    """

    variables: Values
    outputs: Values

    @property
    def all(self) -> dict[str, NDArray]:
        """Both, by name."""
        return {**self.variables, **{f"what it returns as {name}": value for name, value in self.outputs.items()}}


@dataclass(frozen=True)
class Finding:
    """What differs, and by how much, relative to what the step changes in it."""

    name: str
    difference: float
    bound: float


class CannotBeMadeError(Exception):
    """The script's own step fails on one replica, with the rows of all, as it is made for a check."""


class StepCheck:
    """The check of a step.

    Args:
        model: Compiled and built.
        step_function: Its `train_step` or its kin, as one device calls it.
        variables: What the step may change.
        results: The names of outputs that are results of metrics, which each replica has for itself.
    """

    def __init__(
        self,
        model: keras.Model,
        step_function: Step,
        variables: VariableValues,
        results: Callable[[], Collection[str]],
    ) -> None:
        self._model = model
        self._step_function = step_function
        self._strategy = model.distribute_strategy
        self._results = results
        self._values = variables
        self._functions: list[Any] = []
        self._tolerance = tolerance_of(model)
        self._least_move = least_move({layer.compute_dtype for layer in model._flatten_layers()})
        self._needs_all = _needs_all(model)

    def run(self, batch: Any, step: Callable[[Any], Any]) -> Finding | None:
        """What differs most between one device and the replicas; None where nothing does. All workers call it together.

        Args:
            batch: The first batch.
            step: Makes the step of all replicas with such a batch.

        Raises:
            CannotBeMadeError: One device cannot make the step, as it seems.
        """
        with _without_tensor_float_32(), writing_nothing(self._strategy):
            return self._run(batch, step)

    def _run(self, batch: Any, step: Callable[[Any], Any]) -> Finding | None:
        before, state = self._values.of_all(), self._values.read()
        try:
            few, data, expected = self._made_alone(batch, state)
            self._values.write(state)
            found = self._outcome(step(few))
            zeros, users = _with_zeros(before, expected.all), _of_users(expected.all)
            of_replicas = [differences(zeros, users, one) for one in (found.all, *self._values.of_other_replicas())]
            parted = {name: max(one.get(name, 0.0) for one in of_replicas) for name in of_replicas[0]}
            suspects = {name for name, difference in parted.items() if difference > self._tolerance}
            if not self._is_so_somewhere(bool(suspects)):
                return None
            return self._beyond_rounding(data, before, state, expected, parted)
        finally:
            self._values.write(state)

    def _made_alone(self, batch: Any, state: Sequence[NDArray]) -> tuple[Any, Any, Outcome]:
        """What one device makes of a few rows, or of the whole batch where a step cannot be made with a few.

        Returns:
            The batch that it is, the data of all its rows, and what comes of them.

        Raises:
            CannotBeMadeError: Nor can it be made with the whole batch.
        """
        few = few_rows_of(batch, self._strategy)
        for tried in (few,) if few is batch else (few, batch):
            data = rows_of_all(tried, self._strategy)
            self._functions = [self._function_of(data, is_of_any_size(tried))]
            expected, error = None, None
            try:
                expected = self._of_one_device(data)
            except Exception as failure:  # The user's own step, which may take batches of some sizes alone.
                error = failure
            if not self._is_so_somewhere(error is not None) and expected is not None:
                return tried, data, expected
            self._values.write(state)
        raise CannotBeMadeError(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")

    def _beyond_rounding(
        self, data: Any, before: Values, state: Sequence[NDArray], expected: Outcome, parted: dict[str, float]
    ) -> Finding | None:
        """What of the differences is more than rounding, by what moving all numbers a little does on one device."""
        beyond: list[Finding] = []
        trained = self._values.names_of(variable._value for variable in self._model.trainable_variables)
        kinds = [[name for name in parted if (name in trained) == weight] for weight in (True, False)]
        least, most = dict.fromkeys(parted, float("inf")), dict.fromkeys(parted, 0.0)
        for seed in range(_PERTURBATIONS):
            self._values.write(state)
            self._values.perturb(seed, self._least_move)
            moved = self._of_one_device(_perturbed(data, seed, self._least_move))
            moves = differences(_with_zeros(before, expected.all), _of_users(expected.all), moved.all)
            for name in parted:
                least[name], most[name] = min(least[name], moves[name]), max(most[name], moves[name])
            beyond = []
            for names in kinds:
                # A leap at a kink, or of an update that goes by a gradient's sign, meets another variable of the kind.
                leaps = [most[name] for name in names if least[name] < _ALWAYS and most[name] < _LEAP]
                of_kind = max(leaps, default=0.0)
                bounds = {n: max(self._tolerance, _BEYOND_ROUNDING * max(most[n], of_kind)) for n in names}
                beyond += [Finding(name, parted[name], bounds[name]) for name in names if parted[name] > bounds[name]]
            if not self._is_so_somewhere(bool(beyond)):
                return None
        return max(beyond, key=lambda one: one.difference / one.bound, default=None)

    def _is_so_somewhere(self, is_so: bool) -> bool:
        """Whether it is on some worker: hosts may round otherwise, and what follows they do together."""
        return bool(all_reduce(float(is_so), "max", self._strategy))

    def _outcome(self, outputs: Any) -> Outcome:
        return Outcome(self._values.of_all(), _by_name(outputs, self._results()))

    def _of_one_device(self, data: Any) -> Outcome:
        """What one device computes: the script's own step on all rows, on the first replica alone where it can."""
        with _leaving_no_trace(self._model, self._step_function), _not_optimized():
            return self._outcome(self._functions[0](data))

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
                made = self._whole_step(data)
                outputs.extend([made] if is_first else [])

        self._strategy.run(tf.autograph.experimental.do_not_convert(on_replica), args=(data,))
        return outputs[0]

    def _whole_step(self, data: Any) -> Any:
        total = rows(data)
        step = ReplicaStep(total, total, tf.constant(0, tf.int64), total, None, static_rows(data))
        with replica_step(step), in_step_of(self._model), on_whole_step(), of_whole_batch():
            return self._step_function(data)


@contextlib.contextmanager
def _leaving_no_trace(*roots: Any) -> Iterator[None]:
    """What the user's objects hold is afterwards as it was.

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
    """Whether TensorFlow says something else than that replicas run faster in a function."""
    return "eagerly has significant overhead" not in str(record.msg)


def _is_of_no_gather(record: logging.LogRecord) -> bool:
    """Whether TensorFlow says something else than that a check's function, or its gathering of rows, is traced anew."""
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
    """Whether replicas meet in a step that each of them makes whole: where each keeps a part of sums."""
    optimizer = getattr(model, "optimizer", None)
    return optimizer is not None and (is_cut(optimizer) or bool(gradient_accumulation.steps_of(optimizer)))


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


def _perturbed(data: Any, seed: int, least: float) -> Any:
    """Data with each floating number moved by about a rounding error."""

    def moved(leaf: Any) -> Any:
        if not isinstance(leaf, tf.Tensor) or leaf.dtype not in (tf.float32, tf.float64):
            return leaf
        return tf.constant(moved_a_little(leaf.numpy(), np.random.RandomState(seed), least))

    return tf.nest.map_structure(moved, data)
