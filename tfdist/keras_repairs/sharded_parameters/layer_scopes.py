"""The layer that is being called: what the weights that it reads wait for, and which it has read already."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from tensorflow.python.ops.control_flow_v2_func_graphs import ControlFlowFuncGraph

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.context_variables import setting
from tfdist.keras_repairs.sharding_policies.shards import cuts_parameters

Function = Callable[..., Any]


@dataclass
class LayerScope:
    """One call of a layer.

    Attributes:
        graph: In which it is traced; None where it runs eagerly.
        thread: In which it is called. One that tries the layer out meanwhile has no part in it, nor in its tapes.
        inputs: The tensors that it was called with.
        reads: The weights that it has read, by what each is kept under, in their order.
        is_outside: Whether it is that of no layer.
    """

    graph: Any
    thread: int
    inputs: Sequence[tf.Tensor] = ()
    reads: dict[Any, Any] = field(default_factory=dict)
    is_outside: bool = False


_scopes: contextvars.ContextVar[tuple[LayerScope, ...]] = contextvars.ContextVar("tfdist_layer_scopes", default=())

_OUTSIDE: AttachedValue[LayerScope] = AttachedValue("scope_outside_of_layers")
"""Of a graph: the scope of weights that are read in no layer, such as those of regularizers.

They wait for what the outermost layer has returned that was called last. None of them is kept: between two reads a
script may have trained.
"""


def call(original: Function) -> Function:
    """Repairs `Layer.__call__`: a scope for each call, where weights are cut."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not cuts_parameters():
            return original(self, *args, **kwargs)
        graph = current_graph()
        outer = _scopes.get()
        scope = LayerScope(graph, threading.get_ident(), _tensors_of(graph, (args, kwargs)))
        with setting(_scopes, (*outer, scope)):
            outputs = original(self, *args, **kwargs)
        if graph is not None and not outer:
            _OUTSIDE.set(graph, LayerScope(graph, scope.thread, _tensors_of(graph, outputs), is_outside=True))
        return outputs

    return repaired


def current_graph() -> Any:
    """The graph that is traced; None where operations run eagerly."""
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def reading_scope() -> LayerScope:
    """The scope in which a weight that is read now is put together.

    A recurrent layer's cell reads its weights in the body of a loop: they are put together once, before the loop. That
    is as far out as the outermost layer, in whose call no weight changes.
    """
    thread, graph = threading.get_ident(), current_graph()
    scopes = [scope for scope in _scopes.get() if scope.thread == thread]
    if scopes:
        while graph is not scopes[0].graph and isinstance(graph, ControlFlowFuncGraph):
            graph = graph.outer_graph
        for scope in reversed(scopes):
            if scope.graph is graph:
                return scope
    if graph is None:
        return LayerScope(None, thread, is_outside=True)
    return _OUTSIDE.get_or_make(graph, lambda: LayerScope(graph, thread, is_outside=True))


def _tensors_of(graph: Any, values: Any) -> list[tf.Tensor]:
    if graph is None:
        return []
    leaves = tf.nest.flatten(values, expand_composites=True)
    return [leaf for leaf in leaves if isinstance(leaf, tf.Tensor) and getattr(leaf, "graph", None) is graph]
