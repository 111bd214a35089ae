"""A step that XLA compiles as a whole on each worker: forward and backward pass, the sums over the workers, the update.

For workers of one replica each that exchange over NCCL. TensorFlow runs a step that it does not compile kernel by
kernel, and waits at every sum; compiled, it is one program on each GPU, as on one device.

Whether a step can be compiled shows when TensorFlow translates it for XLA, before any of it has run. All workers ask
that of their first batch, and go on in the same way. Where one cannot, each replica's forward and backward pass are
compiled (`forward.xla`). So they are for a batch of which workers have different numbers of samples, such as a last one
that does not divide: a compiled step knows all sizes, and reads no number from the GPU's memory before it begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import tensorflow as tf
from tensorflow.python.eager import context

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.batch_rows import rows, share_rows, static_rows
from tfdist.keras_repairs.base.warn_once import say_once
from tfdist.keras_repairs.inputs.data_adapters import given, replica_batch_of
from tfdist.keras_repairs.inputs.epoch_iterator import FetchedBatch
from tfdist.keras_repairs.sharding_policies.shards import cuts_parameters
from tfdist.runtime.batches.replica_batches import GlobalBatch, ReplicaBatch, extent_of
from tfdist.runtime.collectives.decisions import all_reduce
from tfdist.runtime.strategy_settings import settings_of, shares_of
from tfdist.runtime.transport.compiled_sums import CannotBeCompiled, CompiledSums
from tfdist.runtime.workers import local_replicas, worker_count, worker_rank
from tfdist.text import safe_str

Function = Callable[..., Any]

DYNAMIC_SIZE = re.compile(r"\[[^\]\s]*<=\d")
"""In a program's text, a dimension of which only the largest size is known: `f32[<=16,3]`."""

_MISSING = re.compile(r"(\w+) \(No registered")


def may_be_compiled(model: Any) -> bool:
    """Returns whether steps of a model are to be compiled as a whole, as far as its run and its settings say."""
    strategy = model.distribute_strategy
    settings = settings_of(strategy)
    return (
        bool(model.jit_compile)
        and not model.run_eagerly
        and settings.nccl is not None
        and len(local_replicas(strategy)) == 1
        and not settings.has_tables
        and not cuts_parameters()
        and shares_of(strategy)[0] == worker_count(strategy)
        and settings.offload is None
    )


class XlaStep:
    """Traces a replica's step as one function for XLA. Call it in the context of a replica, in a function.

    Args:
        step: The step of a replica, on its `ReplicaBatch`.
        strategy: Of several workers with one replica each.
    """

    def __init__(self, step: Function, strategy: tf.distribute.Strategy) -> None:
        self._step = step
        self._device = strategy.extended.worker_devices[0]
        self._settings = settings_of(strategy)
        self._worker, self._workers = worker_rank(strategy), worker_count(strategy)
        self._compiled: Any = None

    def __call__(self, batch: ReplicaBatch) -> Any:
        """The outputs of the step for a piece of a batch of which all workers have as many samples.

        Raises:
            CannotBeCompiled: XLA cannot compile it.
        """
        leaves = _leaves(batch)
        if any(not isinstance(leaf, tf.Tensor) or leaf.dtype == tf.string for leaf in leaves):
            raise CannotBeCompiled("its batches have texts, or ragged or sparse rows")
        self._compiled = self._function(batch, leaves, "nccl")
        if self._settings.nccl == "nccl":
            return self._compiled(*leaves)
        # Where NCCL is emulated the step that is compiled shows that it can be, and its twin runs.
        return self._function(batch, leaves, str(self._settings.nccl))(*leaves)

    def _function(self, batch: ReplicaBatch, leaves: Sequence[tf.Tensor], implementation: str) -> Any:
        sums = CompiledSums(self._worker, self._workers, implementation)

        def on_leaves(*tensors: tf.Tensor) -> Any:
            with sums.installed(self._settings):
                return self._step(self._piece(batch.data, tensors))

        signature = [tf.TensorSpec(leaf.shape, leaf.dtype) for leaf in leaves]
        options = {"jit_compile": implementation == "nccl" or None, "autograph": False}
        return tf.function(on_leaves, input_signature=signature, **options).get_concrete_function()

    def _piece(self, data: Any, leaves: Sequence[tf.Tensor]) -> ReplicaBatch:
        """The piece as XLA knows it: how many samples there are follows from the shapes."""
        rest = iter(leaves)
        data = tf.nest.map_structure(lambda leaf: None if leaf is None else next(rest), data)
        samples = rows(data)
        total = samples * self._workers
        known = static_rows(data)
        extent = () if known is None else extent_of(known * self._workers)
        return ReplicaBatch(data, samples, samples * self._worker, total, (), total, extent)

    def refusal(self, batch: ReplicaBatch) -> str:
        """Returns why TensorFlow cannot translate the step, as it was traced last, for XLA; empty where it can.

        Args:
            batch: This worker's piece, of eager tensors.
        """
        captured = self._compiled.captured_inputs
        if not all(isinstance(tensor, tf.__internal__.EagerTensor) for tensor in captured):
            return "it uses tensors of another function"
        try:
            program = context.context().get_compiler_ir(
                device_name=self._device,
                platform_name=None,
                function_name=self._compiled.name,
                flat_args=_leaves(batch),
                captured_inputs=captured,
                stage="hlo",
            )
        except (ValueError, tf.errors.OpError) as error:
            return _reason_in(safe_str(error))
        # Each worker would have as many rows as its own data leave, and sums and gathers need equally many.
        return "a size in it depends on values of the data" if DYNAMIC_SIZE.search(program.decode()) else ""


class StepRunner(Protocol):
    """Runs a step with one batch on this worker."""

    def __call__(self, batch: Any) -> Any:
        """The outputs of the step."""

    def trace(self, batch: Any) -> None:
        """Traces the step as for a call with the batch, and runs nothing."""

    def trace_for(self, spec: Any) -> None:
        """Traces the step for batches of an iterator with this spec, and runs nothing."""

    def return_memory(self) -> None:
        """Returns memory that a trace has left free, if the step was traced since the last call."""


class XlaSteps:
    """Runs steps that XLA compiles as a whole where it can, and else in parts; the same on all workers.

    Args:
        model: Whose steps they are.
        compiled: The step that is compiled as a whole.
        run_compiled: Runs it with one batch.
        run_in_parts: Runs the other step with one batch.

    Attributes:
        run_compiled: As given.
        run_in_parts: As given.
    """

    def __init__(self, model: Any, compiled: XlaStep, run_compiled: StepRunner, run_in_parts: StepRunner) -> None:
        self._model = model
        self._compiled = compiled
        self.run_compiled = run_compiled
        self.run_in_parts = run_in_parts
        self._verdicts: list[tuple[Any, bool]] = []

    def return_memory(self) -> None:
        """Returns memory that traces have left free."""
        self.run_compiled.return_memory()
        self.run_in_parts.return_memory()

    def compiles(self, spec: Any) -> bool | None:
        """Returns whether XLA compiles the step for batches of a spec as a whole; None until one of them has shown
        it."""
        return next((verdict for known, verdict in self._verdicts if known == spec), None)

    def __call__(self, batch: Any) -> Any:
        """Runs one step with a batch, a `FetchedBatch` or a `GlobalBatch`."""
        piece = self._piece_of(batch)
        if piece is None or not self._is_even(piece):
            return self.run_in_parts(batch)
        compiles = self.compiles(_spec_of(batch))
        if compiles is None:
            return self._run_first(batch) if self._try_out(batch, piece) else self.run_in_parts(batch)
        return self.run_compiled(batch) if compiles else self.run_in_parts(batch)

    def _run_first(self, batch: Any) -> Any:
        """Runs the first step, for which XLA compiles it.

        Raises:
            UnsupportedError: XLA could not, though TensorFlow had translated the step for it.
        """
        try:
            return self.run_compiled(batch)
        except (tf.errors.InternalError, tf.errors.UnimplementedError) as error:
            raise UnsupportedError(
                f"XLA failed to compile or to start the step of {self._model.name!r} as a whole, with the sums over "
                "the workers. Train with --jit off, and report the model that shows it. TensorFlow says: "
                f"{safe_str(error).splitlines()[0]}"
            ) from error

    def _try_out(self, batch: Any, piece: ReplicaBatch) -> bool:
        """Settles whether the step is compiled for batches like this one; all workers do so with the same batch."""
        try:
            self.run_compiled.trace(batch)
            refusal = self._compiled.refusal(piece)
        except CannotBeCompiled as error:
            refusal = safe_str(error)
        refused = bool(all_reduce(float(bool(refusal)), "max", self._model.distribute_strategy))
        self._verdicts.append((_spec_of(batch), not refused))
        say_once(
            f"XLA does not compile the step of {self._model.name!r} as a whole, but what each replica computes in it: "
            f"{refusal or 'another worker cannot'}"
            if refused
            else f"XLA compiles the step of {self._model.name!r} as a whole, with the sums over the workers."
        )
        return not refused

    def _is_even(self, piece: ReplicaBatch) -> bool:
        """Returns whether it is known that all workers have as many samples of a batch, without a look at a GPU's
        memory."""
        workers = worker_count(self._model.distribute_strategy)
        return not isinstance(piece.extent, tuple) and piece.extent.shape[0] % workers == 0

    def _piece_of(self, batch: Any) -> ReplicaBatch | None:
        """This worker's piece of a batch; None of one that a user has distributed."""
        strategy = self._model.distribute_strategy
        if isinstance(batch, GlobalBatch):
            if not share_rows(batch.data):
                return None
            samples = rows(batch.data)
            return replica_batch_of(
                batch.data, samples, worker_rank(strategy), worker_count(strategy), shows_extent=True
            )
        if not isinstance(batch, FetchedBatch):
            return None
        (piece,) = strategy.experimental_local_results(batch.values)
        # XLA knows the samples by the shapes, of which none must be another one's.
        return given(piece) if isinstance(piece, ReplicaBatch) and share_rows(piece.data) else None


def _spec_of(batch: Any) -> Any:
    """The spec of the batches of an iterator; of a single batch its own, without the number of samples."""
    if isinstance(batch, FetchedBatch):
        return batch.spec
    return tf.nest.map_structure(_of_any_number, batch)


def _of_any_number(leaf: Any) -> Any:
    spec = tf.type_spec_from_value(leaf)
    if not isinstance(spec, tf.TensorSpec) or not spec.shape.rank:
        return spec
    return tf.TensorSpec([None, *spec.shape[1:]], spec.dtype)


def _reason_in(error: str) -> str:
    """Returns what TensorFlow says of a step that it cannot translate for XLA, without the names of its graphs."""
    missing = dict.fromkeys(_MISSING.findall(error))
    if missing:
        return f"XLA has no {', '.join(missing)}"
    return error.splitlines()[0].removeprefix("Failed getting HLO text: ").strip("'")


def _leaves(batch: ReplicaBatch) -> list[Any]:
    """The tensors of a piece, without parts that are None."""
    return [leaf for leaf in tf.nest.flatten(batch.data) if leaf is not None]
