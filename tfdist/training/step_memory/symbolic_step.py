"""Symbolic step: a config's model and one step of its training as a graph, whose variables take no memory.

An estimate: the executor may run operations in another order and side by side, optimizes the graph first, and kernels
take workspaces of their own. What loops and called functions hold inside is not seen.
"""

from __future__ import annotations

import math
import resource
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tfdist import data
from tfdist.config import RunConfig
from tfdist.data.format_registry import sample_specs
from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.model_checks.described_layouts import with_layouts
from tfdist.keras_repairs.model_checks.model_facts import layers_of
from tfdist.keras_repairs.model_checks.sent_rows import LayerCall, noted_calls
from tfdist.keras_repairs.recomputation import recomputed_calls_of
from tfdist.keras_repairs.sharded_embeddings.embedding_layers import is_sharded_by
from tfdist.keras_repairs.sharded_optimizer.cut_kinds import kind_of
from tfdist.keras_repairs.sharded_optimizer.state_sizes import slots_of, tensor_size
from tfdist.keras_repairs.sharding_policies.optimizer_policy import updating_optimizers
from tfdist.plan.memory.step_sizes import StepSizes, TensorSize, WeightSizes
from tfdist.text import safe_str
from tfdist.training.config_objects.model_builder import build_model
from tfdist.training.config_objects.object_maker import make_optimizer

_SAME_MEMORY = frozenset(
    (
        "Identity", "IdentityN", "Reshape", "ExpandDims", "Squeeze", "StopGradient", "PreventGradient", "Enter", "Exit",
        "CheckNumerics", "EnsureShape", "ReadVariableOp",
    )
)
"""Operations whose output is the memory of their first input."""

_NO_MEMORY = frozenset(
    (
        "BroadcastGradientArgs",
        "VarHandleOp", "Const", "Placeholder", "NoOp", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp",
    )
)
"""Operations whose outputs a step does not allocate: weights, constants, the batch."""

_IN_PLACE = frozenset(
    (
        "Abs", "Add", "AddN", "AddV2", "BiasAdd", "Ceil", "Div", "Elu", "EluGrad", "Erf", "Exp", "Expm1", "Floor",
        "FusedBatchNorm", "FusedBatchNormV3", "LeakyRelu", "LeakyReluGrad", "Log", "Log1p", "LogSoftmax", "Maximum",
        "Minimum", "Mul", "Neg", "Pow", "RealDiv", "Relu", "Relu6", "Relu6Grad", "ReluGrad", "Round", "Rsqrt",
        "RsqrtGrad", "SelectV2", "Select", "Selu", "SeluGrad", "Sigmoid", "SigmoidGrad", "Sign", "Sin", "Softmax",
        "Softplus", "SoftplusGrad", "Softsign", "Sqrt", "SqrtGrad", "Square", "SquaredDifference", "Sub", "Tanh",
        "TanhGrad", "Xdivy",
    )
)
"""Operations whose kernels write over an input that nobody else needs, where its size is that of the output."""


@dataclass(frozen=True)
class LiveBytes:
    """The memory that the tensors of a graph take.

    Attributes:
        peak: Bytes at most at one moment.
        unknown: Kinds of the operations that make tensors of no known size, which count as nothing.
    """

    peak: int
    unknown: tuple[str, ...]


def live_bytes(targets: Sequence[tf.Tensor | tf.Operation], given: Collection[tf.Tensor] = ()) -> LiveBytes:
    """The most that the tensors take by which others are computed, those themselves included.

    Args:
        targets: What is computed or run, of one graph; tensors are held until the end.
        given: Tensors that are counted elsewhere, and what they are computed by.
    """
    held = [target for target in targets if isinstance(target, tf.Tensor)]
    operations = _needed(targets, {tensor.ref() for tensor in given} - {tensor.ref() for tensor in held})
    buffers = _Buffers({tensor.ref() for tensor in given})
    last = {}
    for place, operation in enumerate(operations):
        for tensor in operation.inputs:
            last[tensor.ref()] = place
    for tensor in held:
        last[tensor.ref()] = len(operations)
    for place, operation in enumerate(operations):
        buffers.run(operation, {output.ref(): last.get(output.ref(), place) for output in operation.outputs}, place)
    return LiveBytes(buffers.peak, tuple(sorted(buffers.unknown)))


def _needed(targets: Iterable[tf.Tensor | tf.Operation], given: Collection[object]) -> list[tf.Operation]:
    """The operations that targets need, in the graph's order; none of those that only what is given needs."""
    waiting = [target.op if isinstance(target, tf.Tensor) else target for target in targets]
    found: set[tf.Operation] = set()
    while waiting:
        operation = waiting.pop()
        if operation not in found:
            found.add(operation)
            waiting.extend(tensor.op for tensor in operation.inputs if tensor.ref() not in given)
            waiting.extend(operation.control_inputs)
    graphs = {operation.graph for operation in found}
    return [operation for graph in graphs for operation in graph.get_operations() if operation in found]


@dataclass
class _Buffer:
    """Memory that one tensor or several share.

    Attributes:
        size: Bytes.
        last: The place of the operation that uses it last.
    """

    size: int
    last: int


class _Buffers:
    """The memory of a graph's tensors while its operations run one after another."""

    def __init__(self, uncounted: Collection[object]) -> None:
        self.peak = 0
        self.unknown: set[str] = set()
        self._uncounted = uncounted
        self._of: dict[object, _Buffer] = {}
        self._live: list[_Buffer] = []
        self._taken = 0

    def run(self, operation: tf.Operation, last: dict[object, int], place: int) -> None:
        """Makes the outputs of an operation, and frees what is needed no more."""
        for output in operation.outputs:
            self._make(operation, output, last[output.ref()], place)
        self.peak = max(self.peak, self._taken)
        kept = [buffer for buffer in self._live if buffer.last > place]
        self._taken = sum(buffer.size for buffer in kept)
        self._live = kept

    def _make(self, operation: tf.Operation, output: tf.Tensor, last: int, place: int) -> None:
        size = self._size(operation, output)
        shared = self._shared(operation, size, place)
        if shared is not None:
            shared.last = max(shared.last, last)
            self._of[output.ref()] = shared
            return
        buffer = self._of[output.ref()] = _Buffer(size, last)
        if size:
            self._live.append(buffer)
            self._taken += size

    def _shared(self, operation: tf.Operation, size: int, place: int) -> _Buffer | None:
        """The input's memory that an output of so many bytes gets."""
        inputs = [self._of[tensor.ref()] for tensor in operation.inputs if tensor.ref() in self._of]
        if operation.type in _SAME_MEMORY:
            return next(iter(inputs), None)
        if operation.type in _IN_PLACE:
            return next((buffer for buffer in inputs if buffer.last == place and buffer.size == size > 0), None)
        return None

    def _size(self, operation: tf.Operation, output: tf.Tensor) -> int:
        if operation.type in _NO_MEMORY or output.ref() in self._uncounted or output.dtype == tf.resource:
            return 0
        shape = output.shape
        if not shape.is_fully_defined() or output.dtype in (tf.variant, tf.string):
            self.unknown.add(operation.type)
            return 0
        return math.prod(shape.as_list()) * output.dtype.size


@dataclass(frozen=True)
class _Step:
    """A training step in a graph.

    Attributes:
        loss: The loss.
        gradients: Of each weight that is trained.
        updates: The operations that update weights and the optimizer's state.
        calls: Of the model's layers.
    """

    loss: tf.Tensor
    gradients: list[Any]
    updates: list[tf.Operation]
    calls: list[LayerCall]


_Trace = Callable[[keras.Model, Any], _Step]


def step_sizes(config: RunConfig, share: int) -> StepSizes:
    """The sizes of a config's model, its optimizer's state and a step on one device. Nothing is computed.

    Weights are made only where the model cannot be built as a graph.

    Args:
        config: The run's; its precision is that of Keras already.
        share: Samples of a step on the device.

    Raises:
        ConfigError: The config names something that does not exist or does not fit.
        DataError: The data cannot be read.
    """
    process = _resident_bytes()
    batch = _batch_specs(config)
    specs = tf.nest.map_structure(lambda spec: tf.TensorSpec((share, *spec.shape[1:]), spec.dtype), batch)
    try:
        # Keras gives layers names that a graph has not room for but inside of another scope.
        with tf.Graph().as_default(), tf.name_scope("planned"):
            return _planned(config, specs, _traced_in_graph, process)
    except Exception:  # Whatever code of the user's own says to variables without a value, which it may read or assign.
        keras.backend.clear_session()
    return replace(_planned(config, specs, _traced_with_weights, process), made=True)


def _planned(config: RunConfig, specs: Any, trace: _Trace, process: int) -> StepSizes:
    model = build_model(config, tf.distribute.get_strategy())
    step, why = None, ""
    if type(model).train_step is not keras.Model.train_step:
        why = "the model has a train_step of its own"
    elif config.fit.distill is not None:
        why = "what the teacher of fit.distill takes is not counted"
    elif not all(spec.shape.is_fully_defined() for spec in tf.nest.flatten(specs)):
        why = "samples have no fixed size"
    # A model without a declared input has its weights from its first call.
    if not why or not model.built:
        step = trace(model, specs)
    return _sizes(model, config, step, why, process)


def _traced_in_graph(model: keras.Model, specs: Any) -> _Step:
    return _traced(model, tf.nest.map_structure(lambda spec: tf.compat.v1.placeholder(spec.dtype, spec.shape), specs))


def _traced_with_weights(model: keras.Model, specs: Any) -> _Step:
    """A step of a model that has its weights."""
    if model.built:
        model.optimizer.build(model.trainable_variables)
    steps: list[_Step] = []

    def trace(*batch: Any) -> None:
        steps.append(_traced(model, batch))

    tf.function(trace, autograph=False).get_concrete_function(*specs)
    return steps[0]


def _sizes(model: keras.Model, config: RunConfig, step: _Step | None, why: str, process: int) -> StepSizes:
    variables = model.trainable_variables
    tables = _sharded_tables(model, config.shard_embeddings)
    slots, cut, why_not_cut = _slots(model, config.compile.optimizer)
    gradients = [None] * len(variables) if step is None else step.gradients
    calls = [None] * len(variables) if step is None else recomputed_calls_of(step.loss.graph, variables)
    computing, updating = (None, None) if step is None or why else _live(step)
    weights = (
        WeightSizes(
            path=variable.path,
            value=tensor_size(variable),
            gradient=_gradient_bytes(gradient, variable),
            slots=kept,
            by_rows=id(variable) in tables,
            recomputed_in=call,
        )
        for variable, gradient, kept, call in zip(variables, gradients, slots, calls, strict=True)
    )
    return StepSizes(
        weights=tuple(with_layouts(model, weights, variables, [] if step is None else step.calls)),
        frozen=sum(tensor_size(variable).bytes for variable in model.non_trainable_variables),
        cut=cut,
        why_not_cut=why_not_cut,
        optimizer=type(model.optimizer).__name__,
        activations=None if computing is None else computing.peak,
        update=0 if updating is None else updating.peak,
        why_no_activations=why,
        uncounted=() if computing is None else computing.unknown,
        process=process,
    )


def _traced(model: keras.Model, batch: tuple[Any, ...]) -> _Step:
    x, y, sample_weight = (*batch, None)[:3]
    with tf.GradientTape() as tape:
        with noted_calls() as calls:
            outputs = model(x, training=True)
        loss = model.compute_loss(x=x, y=y, y_pred=outputs, sample_weight=sample_weight, training=True)
        scaled = model.optimizer.scale_loss(loss)
    gradients = tape.gradient(scaled, model.trainable_variables)
    model.optimizer.build(model.trainable_variables)
    before = set(loss.graph.get_operations())
    model.optimizer.apply(gradients, model.trainable_variables)
    updates = [made for made in loss.graph.get_operations() if made not in before and "Assign" in made.type]
    return _Step(loss, gradients, updates, calls)


def _live(step: _Step) -> tuple[LiveBytes, LiveBytes]:
    """Returns what a step takes until it has the gradients of weights, and then; these are counted on their own."""
    gradients = [tensor for gradient in step.gradients if gradient is not None for tensor in _tensors(gradient)]
    return live_bytes([step.loss, *gradients], given=gradients), live_bytes(step.updates, given=gradients)


def _tensors(gradient: Any) -> list[tf.Tensor]:
    return [gradient.values, gradient.indices] if isinstance(gradient, tf.IndexedSlices) else [gradient]


def _gradient_bytes(gradient: Any, variable: Any) -> int:
    if gradient is None:
        return tensor_size(variable).bytes
    tensors = _tensors(gradient)
    if not all(tensor.shape.is_fully_defined() for tensor in tensors):
        return tensor_size(variable).bytes
    return sum(TensorSize(tuple(tensor.shape.as_list()), tensor.dtype.size).bytes for tensor in tensors)


def _sharded_tables(model: keras.Model, most_rows: int | None) -> set[int]:
    """The ids of the tables of embeddings that several workers share by rows."""
    return {
        id(variable)
        for layer in layers_of(model)
        if isinstance(layer, keras.layers.Embedding) and is_sharded_by(layer, most_rows)
        for variable in layer.trainable_variables
    }


def _slots(model: keras.Model, section: Any) -> tuple[list[tuple[TensorSize, ...]], str | None, str]:
    """Returns what the optimizer keeps for each weight, how that can be cut, and why it cannot be.

    Others are made and built for some weights alone, which tells what one keeps for which.

    Args:
        model: The model.
        section: The config's `compile.optimizer`.
    """
    try:
        cut, why = kind_of(_updating(model.optimizer)), ""
    except UnsupportedError as error:
        cut, why = None, safe_str(error)

    def make() -> Any:
        return _updating(make_optimizer(section, "compile.optimizer"))

    return slots_of(make, model.trainable_variables), cut, why


def _updating(optimizer: Any) -> Any:
    """The optimizer that updates weights, which may be inside of one that scales losses.

    Raises:
        UnsupportedError: There are several.
    """
    inside = list(updating_optimizers(optimizer))
    if len(inside) != 1:
        raise UnsupportedError(
            f"plan --memory tells what one optimizer keeps for all weights. Received: {type(optimizer).__name__} "
            f"with {len(inside)} optimizers. Leave --memory out."
        )
    return inside[0]


def _batch_specs(config: RunConfig) -> tuple[Any, ...]:
    """Types and shapes of a batch `(x, y)`, and of the weights of its samples where there are any."""
    section = config.data.train
    specs = sample_specs(section)
    if specs is None:
        # A function of the user's makes the samples: only the pipeline knows what they are.
        opened = data.from_config(section, config.data.batch_size, config.seed, tf.distribute.get_strategy())
        batch = tuple(opened.batches.element_spec)[:2]
    else:
        batch = tuple(_with_batch(part) for part in (specs.x, specs.y))
    weights = (tf.TensorSpec((None,), tf.float32),) if config.fit.class_weight else ()
    return (*batch, *weights)


def _with_batch(spec: Any) -> Any:
    if isinstance(spec, dict):
        return {name: _with_batch(entry) for name, entry in spec.items()}
    return tf.TensorSpec((None, *spec.shape), spec.dtype)


def _resident_bytes() -> int:
    """Bytes of memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
