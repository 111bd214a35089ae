"""Activations that are computed again in the backward pass instead of kept: `keras.RematScope`, `keras.remat`.

A second trace of a call would draw other numbers, count losses twice and move averages twice. So nothing is traced
again: the backward pass reads copies of the operations that the call has left in the graph, the same bits.

Copied are operations that compute the same from the same inputs. What has a state (seeds that are drawn, statistics
that are gathered, averages that move) runs once, and both computations read what it gave. So dropout has the mask of
the forward pass. Loops and branches are kept as well, whose gradients read what they have saved themselves.

A copy waits for the gradient of what the call returned, so that it is not computed at once. Weights of which each
worker holds a part are put together again: all workers trace that in the same order, before their gradients' sums.

Chen et al., 2016, arXiv:1604.06174. Of calls within calls the outermost one is computed again, as a block of a
transformer is with all its layers. A model that is called by no other one would be whole again at once, and nothing
saved: where what it calls is to be computed again, that is, and the model is not.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import keras
import tensorflow as tf
from keras.src.backend.common import global_state

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.tensor_attributes import ON_TENSORS
from tfdist.keras_repairs.sharded_parameters import second_gathers

Function = Callable[..., Any]
Place: TypeAlias = tuple[int, int]
"""Of a tensor in a graph: its operation's number, and which output it is."""

_KEPT = frozenset({"Const", "Placeholder", "While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase"})

_COMPILED = "_XlaMustCompile"
"""Of a function that XLA compiles, which draws other numbers than TensorFlow would: it is kept."""

_OF_SHAPES = frozenset({"Shape", "ShapeN", "Size", "Rank"})
"""Operations that need nothing computed: they read what the forward pass has, while it has it."""


@dataclass(eq=False)
class RecomputedCall:
    """A call in a graph.

    Attributes:
        graph: In which it is traced.
        begin: The number of the last operation before it.
        outputs: What it returned.
        device: On which it was called. What ran elsewhere, such as another replica's part of a sum, runs once.
    """

    graph: Any
    begin: int
    outputs: list[tf.Tensor] = field(default_factory=list)
    device: str = ""

    def add_output(self, output: tf.Tensor, device: str) -> None:
        """Notes an output, and where the caller reads it."""
        self.outputs.append(output)
        self.device = device


@dataclass(frozen=True)
class _Copies:
    """A call that is computed again.

    Attributes:
        tensors: Pairs of a tensor of the forward pass and the one that has its values again.
        end: The number of the last operation of the copies.
    """

    tensors: Sequence[tuple[tf.Tensor, tf.Tensor]]
    end: int


@dataclass(frozen=True)
class RecomputationScope:
    """The code that is traced: a call that is to be computed again, or a backward pass that computes some again.

    Attributes:
        is_inside: Whether it is such a call; one within it is computed again with it.
        copies: The calls that the backward pass has computed again so far; None outside of one.
    """

    is_inside: bool = False
    copies: dict[RecomputedCall, _Copies] | None = None


_OUTSIDE = RecomputationScope()

RECOMPUTATION_SCOPE: contextvars.ContextVar[RecomputationScope] = contextvars.ContextVar(
    "tfdist_recomputation_scope", default=_OUTSIDE
)

_READ: AttachedValue[list[list[tf.Tensor]]] = AttachedValue("variables_of_recomputed_calls")
"""Of a graph: for each call that is computed again the handles of the variables that it reads."""


def recomputed_calls_of(graph: Any, variables: Sequence[Any]) -> list[int | None]:
    """For each variable the number of the call that reads it and that a graph computes again, the last of several.

    Args:
        graph: In which a backward pass is traced.
        variables: Of Keras.

    Returns:
        A number each; None where no such call reads it.
    """
    outside = {id(inner): outer for outer, inner in getattr(graph, "captures", ())}
    call_of = {
        id(outside.get(id(handle), handle)): number
        for number, handles in enumerate(_READ.get(graph) or ())
        for handle in handles
    }
    return [call_of.get(id(variable._value.handle)) for variable in variables]


def gradient(original: Function) -> Function:
    """Repairs `tf.GradientTape.gradient`: what is traced inside reads what is computed again."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        if tf.executing_eagerly():
            return original(self, *args, **kwargs)
        found: dict[RecomputedCall, _Copies] = {}
        begin = tf.no_op()._id
        with changing(RECOMPUTATION_SCOPE, copies=found):
            gradients = original(self, *args, **kwargs)
        for call, copies in found.items():
            again = [tensor.op for _, tensor in copies.tensors]
            earlier = second_gathers.needed_by(call.graph, again, begin)
            _let_read(copies, {_place(output) for output in call.outputs}, earlier)
        return gradients

    return repaired


def compute_again(call: RecomputedCall, upstream: tf.Tensor | tf.IndexedSlices) -> None:
    """Computes a call again in the backward pass that is traced, once for all its outputs.

    Args:
        call: Which. In another graph than the one that is traced, such as that of a loop, it is left as it is, and so
            is one of frozen layers alone before all others.
        upstream: The gradient of an output, for which the second computation waits.
    """
    found = RECOMPUTATION_SCOPE.get().copies
    if found is None or call in found or tf.compat.v1.get_default_graph() is not call.graph:
        return
    if not second_gathers.leads_to_sources(call.outputs):
        return
    wait = upstream.values if isinstance(upstream, tf.IndexedSlices) else upstream
    with tf.device(call.device), tf.name_scope("recomputed"):
        found[call] = _Copying(call, wait).copies()


class _Copying:
    def __init__(self, call: RecomputedCall, wait: tf.Tensor) -> None:
        self._call, self._wait = call, wait
        self._again: dict[Place, tf.Tensor] = {}
        self._pairs: list[tuple[tf.Tensor, tf.Tensor]] = []

    def copies(self) -> _Copies:
        operations = self._operations()
        for number in sorted(operations):
            self._copy(operations[number])
        self._note_variables(operations.values())
        return _Copies(self._pairs, tf.no_op()._id)

    def _note_variables(self, operations: Iterable[Any]) -> None:
        sources = [tensor.op for operation in operations for tensor in operation.inputs]
        reads = [op.inputs[0] for op in sources if op.type == "ReadVariableOp" and op._id > self._call.begin]
        _READ.get_or_make(self._call.graph, list).append(reads)

    def _operations(self) -> dict[int, Any]:
        """Returns what the outputs were computed by, by number."""
        waiting, found = [output.op for output in self._call.outputs], {}
        while waiting:
            op = waiting.pop()
            if op._id in found or not self._can_be_copied(op):
                continue
            found[op._id] = op
            waiting += [tensor.op for tensor in op.inputs if second_gathers.read_of(tensor) is None]
        return found

    def _can_be_copied(self, op: Any) -> bool:
        is_of_call = op._id > self._call.begin or second_gathers.is_of_weight_alone(op)
        if not is_of_call or op.device != self._call.device or op.type in _KEPT:
            return False
        if op.op_def.is_stateful or op.node_def.attr[_COMPILED].b:
            return False
        return not any(output.dtype in (tf.resource, tf.variant) for output in op.outputs)

    def _copy(self, op: Any) -> None:
        inputs = [self._input(tensor) for tensor in op.inputs]
        attributes = {name: op.node_def.attr[name] for name in op.node_def.attr if not name.startswith("_")}
        dtypes = [output.dtype for output in op.outputs]
        made = op.graph.create_op(op.type, inputs, dtypes, attrs=attributes, op_def=op.op_def)
        for output, again in zip(op.outputs, made.outputs, strict=True):
            self._note(output, again)

    def _input(self, tensor: tf.Tensor) -> tf.Tensor:
        """Returns what a copy reads: a copy, a weight put together again, or what is kept, which then waits."""
        place = _place(tensor)
        if place in self._again:
            return self._again[place]
        if tensor.op.type == "Const":
            return tensor
        read = second_gathers.read_of(tensor)
        with tf.control_dependencies([self._wait]):
            if read is not None:
                again = second_gathers.gather_for_copy(read)
                self._note(tensor, again)
            else:
                again = self._again[place] = tf.identity(tensor)
        return again

    def _note(self, tensor: tf.Tensor, again: tf.Tensor) -> None:
        again.set_shape(tensor.shape)
        self._again[_place(tensor)] = again
        self._pairs.append((tensor, again))


def _let_read(copies: _Copies, kept: set[Place], earlier: set[int]) -> None:
    """Has the backward pass read copies; what the call returned is kept, as whoever called it needs it.

    Args:
        copies: Of a call.
        kept: Its outputs.
        earlier: The numbers of operations that come before a copy, and cannot wait for it.
    """
    for tensor, again in copies.tensors:
        if _place(tensor) in kept:
            continue
        for op in tensor.consumers():
            if op._id <= copies.end or op._id in earlier or op.type in _OF_SHAPES:
                continue
            for position, source in enumerate(op.inputs):
                if _place(source) == _place(tensor):
                    op._update_input(position, again)


def _place(tensor: tf.Tensor) -> Place:
    return tensor.op._id, tensor.value_index


def remat(original: Function) -> Function:
    """Repairs `keras.remat`, by which the layers of a `keras.RematScope` are called.

    `tf.recompute_grad`, which Keras takes, refuses keywords in a graph and traces the call twice.
    """

    def repaired(f: Function) -> Function:
        @functools.wraps(f)
        def recomputed(*args: Any, **kwargs: Any) -> Any:
            # What runs eagerly is kept: it could be computed again only by running Python again.
            is_inside = RECOMPUTATION_SCOPE.get().is_inside
            if tf.executing_eagerly() or is_inside or _is_outermost_model(getattr(f, "__self__", None)):
                return f(*args, **kwargs)
            call = RecomputedCall(tf.compat.v1.get_default_graph(), tf.no_op()._id)
            with changing(RECOMPUTATION_SCOPE, is_inside=True):
                outputs = f(*args, **kwargs)
            return tf.nest.map_structure(functools.partial(_watched, call), outputs)

        return recomputed

    return repaired


def _is_outermost_model(layer: Any) -> bool:
    if not isinstance(layer, keras.Model):
        return False
    context = global_state.get_global_attribute("current_call_ctx")
    inner = layer._flatten_layers(include_self=False)
    return context is not None and context.entry_layer is layer and any(each._remat_mode for each in inner)


def _watched(call: RecomputedCall, output: Any) -> Any:
    """An output whose gradient has the call computed again, as soon as it is there."""
    if not isinstance(output, tf.Tensor) or getattr(output, "graph", None) is not call.graph:
        return output
    if output.op._id <= call.begin or not output.dtype.is_floating:
        return output

    @tf.custom_gradient
    def watched(tensor: tf.Tensor) -> tuple[tf.Tensor, Callable[[Any], Any]]:
        def gradient(upstream: Any) -> Any:
            compute_again(call, upstream)
            return upstream

        return tf.identity(tensor), gradient

    passed = watched(output)
    call.add_output(output, passed.op.device)
    for name in ON_TENSORS:
        if hasattr(output, name):
            attached = getattr(output, name)
            setattr(passed, name, _watched(call, attached) if name == "_keras_logits" else attached)
    return passed
