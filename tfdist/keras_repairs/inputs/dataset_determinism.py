"""Decides whether a `tf.data.Dataset` gives the same batches in another process, as read off its graph.

Without random operations all iterators over a dataset give the same. `shuffle` draws the seeds of each iterator from a
generator which TensorFlow's global seed decides, so that the n-th iterators of two processes give the same. Nothing is
known of anything else that random numbers, threads or Python code decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

_PYTHON = ("PyFunc", "EagerPyFunc", "PyFuncStateless", "GeneratorDataset", "OptionalFromValue")
_CHANCE = ("Random", "Stateful", "Multinomial", "TruncatedNormal", "ParameterizedTruncatedNormal", "SampleDistorted")
_SHUFFLE = "Shuffle"


def why_not_deterministic(dataset: tf.data.Dataset) -> str:
    """Returns why another process may get other batches; empty where it gets the same."""
    if dataset.options().deterministic is False:
        return "its options allow any order (deterministic=False)"
    try:
        graph = tf.compat.v1.GraphDef.FromString(dataset._as_serialized_graph().numpy())
    except (tf.errors.OpError, NotImplementedError, TypeError):
        return "it calls Python code"
    nodes = list(_nodes(graph))
    if any(node.op in _PYTHON for node in nodes):
        return "it calls Python code"
    if any(node.op.startswith(_CHANCE) for node in nodes):
        return "it draws random numbers"
    if any(node.attr["deterministic"].s == b"false" for node in nodes if "deterministic" in node.attr):
        return "it allows any order (deterministic=False)"
    if any(_SHUFFLE in node.op for node in nodes) and context.global_seed() is None:
        return "it shuffles and TensorFlow has no global seed"
    if _caches_a_shuffle(graph):
        return "it caches the order of its first epoch"
    return ""


def _nodes(graph: Any) -> Iterator[Any]:
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


def _caches_a_shuffle(graph: Any) -> bool:
    """Returns whether a `cache` comes after a `shuffle`."""
    nodes = {node.name: node for node in graph.node}
    todo = [name for node in graph.node if node.op.startswith("CacheDataset") for name in _inputs(node)]
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        if name in seen or name not in nodes:
            continue
        if _SHUFFLE in nodes[name].op:
            return True
        seen.add(name)
        todo.extend(_inputs(nodes[name]))
    return False


def _inputs(node: Any) -> list[str]:
    return [name.removeprefix("^").partition(":")[0] for name in node.input]
