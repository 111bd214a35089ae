"""`jit_compile=True` on several replicas: XLA compiles each replica's forward and backward pass, and nothing else.

Keras would compile the whole step, with the collectives and the updates of every replica's variables in it, on which
TensorFlow crashes or aborts. Here the outermost call of a layer in a step becomes a function of tensors alone, which
XLA compiles for each replica, and the gradient of which TensorFlow compiles as well; what the layer assigns inside is
assigned outside.

The logits behind probabilities, carried into and out of a function that XLA compiles.

Keras computes a crossentropy from the logits where it finds them: the activation notes them on the tensor that it
returns, or the tensor is the result of TensorFlow's operation. Neither is seen on the tensors of another function, and
of probabilities Keras cuts off what is close to 0 and 1.

The gradient of a loop needs what its steps have computed, and that of a branch what was computed in it. TensorFlow
passes the one on in lists and the other as optional values, which cannot leave a function that XLA has compiled. So the
compiled backward pass runs the forward pass once more (Chen et al. 2016, "Training deep nets with sublinear memory
cost", with the whole call as the one segment).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import keras
import tensorflow as tf
from keras.src import backend

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base import global_seeds, tensorflow_seeds
from tfdist.keras_repairs.base.replica_step import MeetingInXla, ReplicaStep, current_step, replica_step
from tfdist.keras_repairs.base.tensor_attributes import ACTIVATIONS
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.keras_repairs.coupling.call_scope import is_mean, marked_as_mean
from tfdist.keras_repairs.coupling.gathered_batch import NeedsAllRows
from tfdist.keras_repairs.sharded_embeddings.table_variable import tables_of
from tfdist.text import safe_str

_LOOPS_AND_BRANCHES = {"While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase"}

Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices


def call_with_loops(function: Any, *args: Any) -> Any:
    """Calls a `tf.function` that XLA compiles; its result has a gradient by its tensors even with loops and branches.

    Args:
        function: It reads no variable, and returns a structure of tensors and Nones.
        args: Structures of tensors and Nones.
    """
    traced = function.get_concrete_function(*args)
    if not _has_loops_or_branches(traced.graph.as_graph_def()):
        return function(*args)
    leaves = tf.nest.flatten(args)
    places = [place for place, leaf in enumerate(leaves) if leaf is not None]

    def outputs_of(*tensors: tf.Tensor) -> list[tf.Tensor]:
        filled = dict(zip(places, tensors, strict=True))
        given = tf.nest.pack_sequence_as(args, [filled.get(place) for place in range(len(leaves))])
        return [output for output in tf.nest.flatten(function(*given)) if output is not None]

    outputs = iter(_recomputing(outputs_of)(*(leaves[place] for place in places)))
    described = traced.structured_outputs
    made = [None if spec is None else next(outputs) for spec in tf.nest.flatten(described)]
    return tf.nest.pack_sequence_as(described, made)


def _has_loops_or_branches(graph: Any) -> bool:
    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    return any(node.op in _LOOPS_AND_BRANCHES for body in bodies for node in body)


def _recomputing(compute: Callable[..., list[tf.Tensor]]) -> Callable[..., list[tf.Tensor]]:
    """`compute`, with a gradient that is compiled as a whole.

    Gradients of rows of a table stay sparse: optimizers square the gradient of each occurrence of a row separately.
    """

    @tf.function(jit_compile=True, autograph=False)
    def backward(tensors: Sequence[tf.Tensor], upstream: Sequence[tf.Tensor]) -> list[Gradient]:
        watched = _floating(tensors)
        with tf.GradientTape() as tape:
            tape.watch(watched)
            outputs = _floating(compute(*tensors))
        return list(tape.gradient(outputs, watched, upstream, tf.UnconnectedGradients.ZERO))

    @tf.custom_gradient
    def forward(*tensors: tf.Tensor) -> tuple[list[tf.Tensor], Callable[..., list[Gradient | None]]]:
        outputs = compute(*tensors)

        def gradient(*upstream: tf.Tensor) -> list[Gradient | None]:
            given = [value for value, output in zip(upstream, outputs, strict=True) if output.dtype.is_floating]
            found = iter(backward(tensors, given))
            return [next(found) if tensor.dtype.is_floating else None for tensor in tensors]

        return outputs, gradient

    return forward


def _floating(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    return [tensor for tensor in tensors if tensor.dtype.is_floating]


Logits: TypeAlias = Mapping[str, Mapping[int, tf.Tensor]]
"""By how they are found, and by the place of the probabilities among the tensors."""

_NOTED = "noted"


def logits_behind(tensors: Sequence[Any]) -> Logits:
    """The logits behind what a layer is given or returns, where Keras would find them.

    Args:
        tensors: Tensors of the current graph, and anything else.
    """
    noted = {place: getattr(tensor, "_keras_logits", None) for place, tensor in enumerate(tensors)}
    found = {_NOTED: {place: logits for place, logits in noted.items() if logits is not None}}
    for operation in ACTIVATIONS:
        found[operation] = {
            place: tensor.op.inputs[0]
            for place, tensor in enumerate(tensors)
            if tf.is_symbolic_tensor(tensor) and tensor.op.type == operation and place not in found[_NOTED]
        }
    return found


def with_logits(tensors: Sequence[Any], logits: Logits) -> list[Any]:
    """The tensors, behind which Keras finds `logits` again; results of operations are computed anew."""
    again = list(tensors)
    for kind, by_place in logits.items():
        for place, value in by_place.items():
            if kind == _NOTED:
                again[place]._keras_logits = value
            else:
                again[place] = ACTIVATIONS[kind](value)
    return again


Function = Callable[..., Any]


class _DependsOnBatch(Exception):
    """A loss was added, or a state kept, that rows of padding would change."""


def call(original: Function) -> Function:
    """Repairs `Layer.__call__`: in a step that is to be compiled, the outermost call is."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        step = current_step()
        if step is None or not step.trace.compiles or backend.in_stateless_scope() or not self.built:
            return original(self, *args, **kwargs)
        if tables_of(self):
            # Their lookups ask other workers, which XLA cannot; the layers inside are compiled each by itself.
            return original(self, *args, **kwargs)
        run = lambda *inner, **options: original(self, *inner, **options)  # noqa: E731
        try:
            return _padded_or_not(self, run, args, kwargs, step)
        except NeedsAllRows:
            # The layers inside are compiled each by itself.
            return original(self, *args, **kwargs)
        except MeetingInXla:
            warn_once(
                f"XLA does not compile the layer {self.name!r}, as the replicas exchange numbers in it, but the layers "
                "inside of it one by one."
            )
            return original(self, *args, **kwargs)

    return repaired


def _padded_or_not(layer: Any, run: Function, args: Any, kwargs: Any, step: ReplicaStep) -> Any:
    # What the user's own step calls may have other rows. Where the rows of a piece are known while it is traced,
    # every size is compiled separately anyway.
    if step.share.capacity is None or step.users or step.share.static_rows is not None or _statistics_of_batch(layer):
        return _compiled(layer, run, args, kwargs, step, pads=False)
    try:
        return _compiled(layer, run, args, kwargs, step, pads=True)
    except _DependsOnBatch:
        return _compiled(layer, run, args, kwargs, step, pads=False)


@dataclass(frozen=True)
class _Made:
    """The results of a compiled call, as tensors.

    Attributes:
        outputs: What the layer returned.
        masks: The mask of each of them, or None.
        state: New values of the variables that were assigned, by their place.
        losses: What was given to `add_loss`, by the layer's id.
        logits: Those behind the outputs.
        means: Which of the losses are known to be means over samples.
    """

    outputs: Any
    masks: list[Any]
    state: dict[int, Any]
    losses: dict[int, Any]
    logits: Logits
    means: dict[int, list[bool]]


def _compiled(layer: Any, run: Function, args: Any, kwargs: Any, step: ReplicaStep, *, pads: bool) -> Any:
    variables = [*layer.variables, *_global_seeds()]
    # Of a model they may be those of its steps, of which the function is to see no more than it reads.
    of_metrics = list(layer.metrics_variables)
    parts = [tf.convert_to_tensor(variable.value) for variable in of_metrics]
    seeds = {place for place, variable in enumerate(variables) if "seed_generator_state" in variable.path}
    flat = tf.nest.flatten((args, kwargs), expand_composites=False)
    places = [place for place, leaf in enumerate(flat) if isinstance(leaf, tf.Tensor)]
    _check_inputs(layer, flat)
    tensors = [flat[place] for place in places]
    masks = [backend.get_keras_mask(tensor) for tensor in tensors]
    logits = logits_behind(tensors)
    if pads:
        tensors, masks = _padded(tensors, step), _padded(masks, step)
        logits = _each(_padded, logits, step)

    means: dict[int, list[bool]] = {}

    @tf.function(jit_compile=True, autograph=False)
    def compiled(
        values: Sequence[tf.Tensor], tensors: Sequence[tf.Tensor], masks: Sequence[Any], logits: Logits
    ) -> Any:
        for place, tensor, mask in zip(places, with_logits(tensors, logits), masks, strict=True):
            flat[place] = tensor
            if mask is not None:
                backend.set_keras_mask(tensor, mask)
        inner_args, inner_kwargs = tf.nest.pack_sequence_as((args, kwargs), flat)
        inner_step = step.within_xla(step.share.capacity if pads else step.share.rows)
        made = _call(run, [*variables, *of_metrics], [*values, *parts], inner_args, inner_kwargs, inner_step)
        if pads and (made.losses or any(place not in seeds for place in made.state)):
            raise _DependsOnBatch
        means.update(made.means)
        return made.outputs, made.masks, made.state, made.losses, made.logits

    try:
        values = [tf.convert_to_tensor(variable.value) for variable in variables]
        outputs, masks_made, state, losses, behind = call_with_loops(compiled, values, tensors, masks, logits)
        made = _Made(outputs, masks_made, state, losses, behind, means)
    except RuntimeError as error:
        if "merge_call" not in safe_str(error):
            raise
        raise MeetingInXla from error
    return _taken_over(made, [*variables, *of_metrics], step, pads=pads)


def _taken_over(made: _Made, variables: Sequence[Any], step: ReplicaStep, *, pads: bool) -> Any:
    """Repeats outside of the compiled function what the layer did inside; returns its outputs, with their masks."""
    for place, value in made.state.items():
        variables[place].assign(value)
    for key, losses in made.losses.items():
        marks = zip(losses, made.means[key], strict=True)
        step.noted.added_losses[key] = [marked_as_mean(loss) if is_known else loss for loss, is_known in marks]
    outputs, masks, logits = tf.nest.flatten(made.outputs), made.masks, made.logits
    if pads:
        outputs, masks, logits = _cut(outputs, step), _cut(masks, step), _each(_cut, logits, step)
    outputs = with_logits(outputs, logits)
    for output, mask in zip(outputs, masks, strict=True):
        if mask is not None:
            backend.set_keras_mask(output, mask)
    return tf.nest.pack_sequence_as(made.outputs, outputs)


class _Assignments(keras.StatelessScope):
    """Lets what is computed with a new value have a gradient by the variable, as with TensorFlow's variables.

    A layer that assigns to its weight and then reads it (`SpectralNormalization`) trains the weight that it has read,
    not the one that it had before: the gradient does not go through the assignment.
    """

    def add_update(self, update: tuple[Any, Any]) -> None:
        variable, value = update
        old = self.get_current_value(variable)
        if isinstance(old, tf.Tensor) and old.dtype.is_floating:
            value = _assigned(old, tf.convert_to_tensor(value))
        super().add_update((variable, value))


@tf.custom_gradient
def _assigned(old: tf.Tensor, new: tf.Tensor) -> tuple[tf.Tensor, Callable[..., tuple[tf.Tensor, None]]]:
    return tf.identity(new), lambda upstream: (upstream, None)


def _call(
    run: Function, variables: Sequence[Any], values: Sequence[tf.Tensor], args: Any, kwargs: Any, step: ReplicaStep
) -> _Made:
    """Runs the layer on `values` instead of its variables."""
    outside, step.noted.added_losses = step.noted.added_losses, {}
    try:
        with replica_step(step), _Assignments(list(zip(variables, values, strict=True))) as scope:
            outputs = run(*args, **kwargs)
        losses = {key: tuple(terms) for key, terms in step.noted.added_losses.items()}
    finally:
        step.noted.added_losses = outside
    now = [scope.get_current_value(variable) for variable in variables]
    changed = {i: new for i, (new, old) in enumerate(zip(now, values, strict=True)) if new is not old}
    flat = tf.nest.flatten(outputs)
    masks = [backend.get_keras_mask(output) for output in flat]
    means = {key: [is_mean(term) for term in terms] for key, terms in losses.items()}
    return _Made(outputs, masks, changed, losses, logits_behind(flat), means)


def _padded(tensors: Sequence[Any], step: ReplicaStep) -> list[Any]:
    """Fills the rows up to the most that a replica gets, so that the last batch has the shape of the others.

    With copies of a row, as made-up numbers might be some that the model makes infinite.
    """
    missing = step.share.capacity - step.share.rows

    def padded(tensor: Any) -> Any:
        if tensor is None or tensor.shape.rank == 0:
            return tensor
        return tf.concat([tensor, tf.repeat(tensor[:1], missing, axis=0)], 0)

    return [padded(tensor) for tensor in tensors]


def _cut(tensors: Sequence[Any], step: ReplicaStep) -> list[Any]:
    """Takes the padding off again; what has a first dimension of its own is no batch."""
    return [
        tensor[: step.share.rows] if tensor is not None and tensor.shape.rank and tensor.shape[0] is None else tensor
        for tensor in tensors
    ]


def _each(change: Callable[[Sequence[Any], ReplicaStep], list[Any]], logits: Logits, step: ReplicaStep) -> Logits:
    return {
        kind: dict(zip(by_place, change(list(by_place.values()), step), strict=True))
        for kind, by_place in logits.items()
    }


def _global_seeds() -> list[Any]:
    state, seeds = global_seeds.state_in_replica(), tensorflow_seeds.seeds_of_replica()
    return [*([] if state is None else [state]), *([] if seeds is None else [seeds.state])]


def _statistics_of_batch(layer: Any) -> bool:
    return any(isinstance(part, keras.layers.BatchNormalization) for part in layer._flatten_layers())


def _check_inputs(layer: Any, leaves: Sequence[Any]) -> None:
    for leaf in leaves:
        if isinstance(leaf, tf.RaggedTensor | tf.SparseTensor) or getattr(leaf, "dtype", None) == tf.string:
            raise UnsupportedError(
                f"compile(jit_compile=True): XLA takes dense numbers, and {layer.name!r} is called with a "
                f"{type(leaf).__name__} of {leaf.dtype.name}. Convert it in the data, or leave out jit_compile."
            )
