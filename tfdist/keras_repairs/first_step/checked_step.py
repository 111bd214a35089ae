"""Around the functions that Keras calls for steps: the first step of each kind is checked before it is made.

The effects of a compiled step beside computing with variables; with any, it is not made once more to be checked.
"""

from __future__ import annotations

import contextlib
import logging
import math
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import keras
import tensorflow as tf
from tensorflow.python.distribute.values import PerReplica

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.draw_streams import DrawStreams
from tfdist.keras_repairs.base.model_optimizers import optimizers_of
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.keras_repairs.coupling.own_steps import EagerBranches
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState
from tfdist.keras_repairs.first_step.rounding_bounds import Finding
from tfdist.keras_repairs.first_step.step_check import CannotBeMadeError, StepCheck, without_advice
from tfdist.keras_repairs.first_step.variable_values import VariableValues
from tfdist.keras_repairs.inputs.epoch_iterator import FetchedBatch
from tfdist.keras_repairs.model_checks.model_facts import is_users_step
from tfdist.keras_repairs.optimizer.gradient_accumulation import inner_of
from tfdist.keras_repairs.optimizer.gradient_reduction import build_optimizer
from tfdist.keras_repairs.sharding_policies.optimizer_policy import is_sharded
from tfdist.keras_repairs.sharding_policies.shards import stored_shards
from tfdist.runtime.batches.replica_batches import GlobalBatch, ReplicaBatch
from tfdist.runtime.collectives.decisions import all_reduce
from tfdist.runtime.strategy_settings import settings_of
from tfdist.text import format_bytes

_EFFECT = re.compile(
    r"^(Write\w*Summary|WriteSummary|Print|PrintV2|WriteFile|Save\w*|EagerPyFunc|PyFunc|Queue\w*Enqueue\w*|"
    r"Queue\w*Dequeue\w*|Stack\w+|Barrier\w+|LookupTable(Insert|Import|Remove)\w*|MutexLock)$"
)

_OWN = "tfdist_exchange"
"""The name of exchanges of tfdist's own between workers."""


MOST_GATHERED = 32 << 20
"""Bytes of weights that are cut between workers, from which on a step is checked where that is asked for alone.

A check has about forty times as much: the variables of a step as they are, as one device and as the replicas change
them, and gradients and state with each.
"""


MOST_POSITIONS = 512
"""The most positions of sequences that are cut between workers with which a step is checked by default.

A check takes rows of a whole batch, as one device has them.
"""


def full_size(model: keras.Model) -> int:
    """Returns how many bytes the weights of a model have in full of which each worker stores a shard."""
    return sum(math.prod(shard.full_shape) * shard.stored.dtype.size for shard in stored_shards(model))


def effects_of(function: Any) -> list[str]:
    """The operations of a concrete function that do something outside of it, by their names; none where it has none."""
    return sorted({node.op for node in _nodes(function) if _EFFECT.match(node.op) and _OWN not in node.name})


def _nodes(function: Any) -> Iterator[Any]:
    definition = function.graph.as_graph_def()
    yield from definition.node
    for inner in definition.library.function:
        yield from inner.node_def


Step = Callable[[Any], Any]

_log = logging.getLogger("tfdist")


class TracedStep(Protocol):
    """Makes a step with one batch on all replicas."""

    def __call__(self, batch: Any) -> Any: ...

    def trace(self, batch: Any) -> Any:
        """The concrete function of the step for such a batch; None where it runs eagerly."""


@dataclass
class Sharing:
    """The way in which the replicas share out a step.

    Attributes:
        on_global_batch: Whether each of them runs all of it, as a check has found that anything less is not exact.
        draws_own: Whether each replica draws numbers of its own in it, which nobody can foresee.
        streams: What they draw in it with seeds of the script's; None where nobody knows what one device would draw.
        eager_branches: Tells whether the batch decides branches of it, where it runs eagerly; None for a step of the
            user's, which is tried out.
    """

    streams: DrawStreams | None = None
    on_global_batch: bool = False
    draws_own: bool = False
    eager_branches: EagerBranches | None = None


class CheckedStep:
    """Checks a step of a model before it is made for the first time with each kind of batch.

    Args:
        model: Compiled.
        step_function: Its step, as one device calls it.
        sharing: How the replicas share it out, which a check may change.
        results: The names of what it returns that are results of metrics.
    """

    def __init__(
        self,
        model: keras.Model,
        step_function: Step,
        sharing: Sharing,
        results: Callable[[], Collection[str]],
    ) -> None:
        self._model = model
        self._step_function = step_function
        self._sharing = sharing
        self._results = results
        self._strategy = model.distribute_strategy
        self._name = f"{type(model).__qualname__}.{step_function.__name__} of {model.name!r}"
        self._known: list[Any] = []
        self._known_of_few: list[tuple[Any, int]] = []
        """The kinds of batches that were checked with fewer rows than there are replicas, and with how many."""
        self._says_distributed = False
        self._refusal: UnsupportedError | None = None

    @property
    def is_off(self) -> bool:
        """True if nothing is checked, or everything that was asked for last."""
        return settings_of(self._strategy).check == "off" or not settings_of(self._strategy).gather

    def note_batches(self, spec: Any) -> None:
        """Notes that steps come with batches of a dataset with this spec; None for batches of none.

        Raises:
            UnsupportedError: For such batches one device would draw other numbers.
        """
        if self._sharing.streams is not None:
            self._sharing.streams.note_batches(spec)

    def knows(self, spec: Any) -> bool:
        """Returns whether a step with batches of an iterator with this spec is checked already, or is not to be."""
        return self.is_off or spec in self._known

    def needs_more_rows(self, spec: Any) -> bool:
        """Returns whether a step with batches of an iterator with this spec was checked with fewer rows than replicas
        only."""
        return not self.knows(spec) and any(known == spec for known, _ in self._known_of_few)

    def is_due(self, batch: Any) -> bool:
        """Returns whether a step with such a batch has not been checked yet, and is to be."""
        if self.is_off or _has_no_rows(batch):
            return False
        if not _is_of_replicas(batch, self._strategy):
            if not self._says_distributed:
                self._says_distributed = True
                self._say_unchecked("the script has distributed its batches itself")
            return False
        kind = _kind_of(batch)
        if kind in self._known:
            return False
        seen = [rows for known, rows in self._known_of_few if known == kind]
        return not seen or _rows_of(batch, self._strategy) > max(seen)

    def is_shared_anew(self, batch: Any, step: TracedStep) -> bool:
        """Checks the step; returns whether it is to be traced once more, as it is shared out in another way.

        Args:
            batch: The first batch of a kind.
            step: Makes the step of the replicas.

        Raises:
            UnsupportedError: Even the whole step on every replica is not what one device computes, or cannot be traced.
        """
        refusal, function = self._refused(batch, step)
        if bool(all_reduce(float(refusal is not None), "max", self._strategy)):
            self._refusal = refusal or UnsupportedError("another worker cannot share it out")
            self._sharing.on_global_batch = True
            return True
        self._say_whole_instead()
        if function is None and self._step_function.__name__ == "train_step":
            build_optimizer(self._model.optimizer, self._model.trainable_weights)
        hindrance = self._hindrance(function, batch)
        # The chief alone writes, so that its step may do more than those of the others.
        if bool(all_reduce(float(bool(hindrance)), "max", self._strategy)):
            self._known.append(_kind_of(batch))
            self._say_unchecked(hindrance or "that of another worker does more than compute")
            return False
        streams = self._sharing.streams
        check = StepCheck(self._model, self._step_function, self._variables(function), self._results, streams)
        try:
            with without_advice(), self._metrics_as_before():
                finding = check.run(batch, step)
        except CannotBeMadeError as error:
            self._known.append(_kind_of(batch))
            self._say_unmade(error, lambda: step(batch))
            return False
        except UnsupportedError as refusal:
            # A step that runs eagerly is not traced: it says so when it runs, and nothing of that is left.
            if not self._model.run_eagerly or not self._may_run_whole():
                raise (self._refusal or refusal) from None
            self._refusal, self._sharing.on_global_batch = refusal, True
            return True
        if finding is None:
            self._note_checked(batch)
            return False
        self._climb(finding)
        return True

    def _note_checked(self, batch: Any) -> None:
        rows = _rows_of(batch, self._strategy)
        if rows >= self._strategy.num_replicas_in_sync:
            self._known.append(_kind_of(batch))
            _log.info("%s: checked on its first batch, it is what one device computes", self._name)
            return
        # A replica without a row hides faults.
        self._known_of_few.append((_kind_of(batch), rows))
        _log.info("%s: checked on fewer rows than replicas; the first batch with more is checked, too", self._name)

    def _refused(self, batch: Any, step: TracedStep) -> tuple[UnsupportedError | None, Any]:
        """Returns why replicas cannot share the step out, as its trace has said, and the function that was traced.

        Raises:
            UnsupportedError: They cannot run it whole either, or are not to.
        """
        try:
            return None, step.trace(batch)
        except UnsupportedError as refusal:
            if not self._may_run_whole():
                raise (self._refusal or refusal) from None
            return refusal, None

    def _may_run_whole(self) -> bool:
        settings = settings_of(self._strategy)
        return not (self._sharing.on_global_batch or settings.strict or settings.batch_norm == "replica")

    def _say_whole_instead(self) -> None:
        """Says that the step runs whole for what could not be shared out, once that is known to be possible."""
        if self._refusal is None:
            return
        warn_once(
            f"{self._name} runs whole on every replica, with the samples of all of them: exact, and no faster than one "
            f"device. They cannot share it out: {self._refusal}"
        )
        self._refusal = None

    def _hindrance(self, function: Any, batch: Any) -> str:
        """Returns why the step cannot be made once more for a check, as far as this worker knows; empty where it
        can."""
        if self._sharing.draws_own:
            return "it draws random numbers without a seed for each sample"
        if function is None and not all(each.built for each in optimizers_of(self._model)):
            return "it runs eagerly, and makes variables of an optimizer"
        settings = settings_of(self._strategy)
        if settings.batch_norm == "replica":
            return "BatchNormalization takes each replica's own statistics, as --batch-norm replica asks for"
        offload = settings.offload
        if offload is not None and offload.disk is not None:
            return "the state of its optimizer lies on disk"
        full = full_size(self._model)
        if full > MOST_GATHERED and settings.check != "strict":
            return (
                f"its weights are cut between the workers, each of which would have all {format_bytes(full)} of them, "
                "as one device has, and several times"
            )
        positions = longest_sequence(batch, self._strategy) if settings.context > 1 else 0
        if positions > MOST_POSITIONS and settings.check != "strict":
            return (
                f"its sequences of {positions} positions are cut between the workers, each of which would have whole "
                "ones, as one device has"
            )
        if _is_sparse(batch, self._strategy):
            return "its data are sparse, whose rows are not gathered"
        effects = [] if function is None else effects_of(function)
        return f"it does more than compute ({', '.join(effects)})" if effects else ""

    @contextlib.contextmanager
    def _metrics_as_before(self) -> Iterator[None]:
        """Metrics that the code inside makes begin anew afterwards: a step that runs eagerly makes them, and counts."""
        before = {id(variable) for variable in self._model.metrics_variables}
        try:
            yield
        finally:
            for metric in self._model.metrics:
                if any(id(variable) not in before for variable in metric.variables):
                    metric.reset_state()

    def _variables(self, function: Any) -> VariableValues:
        """The variables that the step may change; operations on handles do not show in a function."""
        optimizers = list(optimizers_of(self._model))
        of_optimizers = [variable for each in optimizers for variable in each.variables]
        # Also those of metrics that the model has, and does not list.
        of_metrics = [variable for metric in self._model._metrics for variable in metric.variables]
        of_keras = [*self._model.variables, *self._model.metrics_variables, *of_metrics, *of_optimizers]
        # A worker that holds a part of an optimizer accumulates its part of sums, others what they add to sums.
        adding = [inner_of(each) for each in optimizers if not is_sharded(each)]
        sums = [one for each in adding for one in getattr(each, "_accumulated_gradients", ())]
        streams = self._sharing.streams
        drawn = [PerReplica(streams.copies)] if streams is not None and streams.copies else []
        return VariableValues(
            [*(each._value for each in of_keras), *KeptState(self._model, self._step_function).variables, *drawn],
            [variable._value for variable in sums],
            () if function is None else function.graph.variables,
            self._strategy,
        )

    def _climb(self, finding: Finding | str) -> None:
        if self._sharing.on_global_batch:
            raise UnsupportedError(
                f"{self._name} would not give the numbers of one device, as was found on its first batch before it was "
                f"trained on: even with the whole step on every replica something differs: {finding}. Is something "
                "made or assigned outside of the strategy's scope, or kept by the script beside variables? Run it on "
                "one device (`tfdist train` without --workers, --nproc and --logical-devices), and report the model."
            )
        warn_once(
            f"{self._name} runs whole on every replica, with the samples of all of them: exact, and no faster than one "
            f"device. On its first batch, before training on it, what the replicas computed in parts differed: "
            f"{finding}. Please report the model that shows it. A run with --strict refuses it, one with --check off "
            "does not look."
        )
        self._sharing.on_global_batch = True

    def _say_unmade(self, error: CannotBeMadeError, make: Callable[[], Any]) -> None:
        """Steps of Keras's run on any replica; those of users may meet the others, in sums of their own."""
        if is_users_step(self._model, self._step_function.__name__):
            self._say_unchecked(f"it could not be made on one replica alone ({error})")
            return
        make()  # Where the replicas fail, too, as on wrong data, the error is that of the step.
        raise UnsupportedError(
            f"{self._name} could not be checked on its first batch: one replica alone fails at it, with the samples of "
            f"all ({error}). Expected layers, losses and metrics that compute on any replica as on one device. Run it "
            "on one device (`tfdist train` without --workers, --nproc and --logical-devices), or without the check, "
            "with --check off; and report the model."
        ) from error

    def _say_unchecked(self, reason: str) -> None:
        message = f"{self._name}: not checked on its first batch, as {reason}"
        if settings_of(self._strategy).check == "strict":
            raise UnsupportedError(f"{message}. That is refused with --check strict.")
        _log.info(message)


def _is_of_replicas(batch: Any, strategy: tf.distribute.Strategy) -> bool:
    if isinstance(batch, GlobalBatch):
        return True
    if not isinstance(batch, FetchedBatch):
        return False
    return isinstance(strategy.experimental_local_results(batch.values)[0], ReplicaBatch)


def _is_sparse(batch: Any, strategy: tf.distribute.Strategy) -> bool:
    """Returns whether there is a sparse tensor among the data of a batch, which the rows of all replicas cannot be made
    of."""
    return any(isinstance(piece, tf.SparseTensor) for piece in _pieces(batch, strategy))


def longest_sequence(batch: Any, strategy: tf.distribute.Strategy) -> int:
    """Returns how many positions the longest sequence of a batch has: places along a second dimension."""
    shapes = (getattr(piece, "shape", None) for piece in _pieces(batch, strategy))
    return max((shape[1] or 0 for shape in shapes if shape is not None and len(shape) > 1), default=0)


def _pieces(batch: Any, strategy: tf.distribute.Strategy) -> list[Any]:
    """This worker's first piece of all that a batch has."""
    data = batch.data if isinstance(batch, GlobalBatch) else strategy.experimental_local_results(batch.values)[0].data
    return [strategy.experimental_local_results(leaf)[0] for leaf in tf.nest.flatten(data)]


def _has_no_rows(batch: Any) -> bool:
    """Returns whether a single batch is known to be empty: one device computes NaN of it, too."""
    leaves = [] if isinstance(batch, FetchedBatch) else [leaf for leaf in tf.nest.flatten(batch) if leaf is not None]
    return bool(leaves) and all(leaf.shape.rank and leaf.shape[0] == 0 for leaf in leaves)


def _rows_of(batch: Any, strategy: tf.distribute.Strategy) -> int:
    """The rows of a global batch; as many as there are replicas where nobody says."""
    if isinstance(batch, FetchedBatch):
        piece = strategy.experimental_local_results(batch.values)[0]
        return int(piece.total) if isinstance(piece, ReplicaBatch) else strategy.num_replicas_in_sync
    counts = [leaf.shape[0] for leaf in tf.nest.flatten(batch) if leaf is not None and leaf.shape.rank]
    return max(counts, default=strategy.num_replicas_in_sync)


def _kind_of(batch: Any) -> Any:
    if isinstance(batch, FetchedBatch):
        return batch.spec
    # Parts may be None: what `train_on_batch` is not given.
    return tf.nest.map_structure(lambda leaf: None if leaf is None else (leaf.dtype, tuple(leaf.shape[1:])), batch)
