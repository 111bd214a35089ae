"""Decides which data one worker of a host draws for all of its workers, and which each worker draws for itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter

from tfdist.keras_repairs.base.warn_once import say_once
from tfdist.keras_repairs.inputs.full_read_warnings import parts_of
from tfdist.keras_repairs.inputs.same_data_check import check_same_data
from tfdist.runtime import random_state
from tfdist.runtime.batches.host_feed.batch_notes import MOST_ARRAYS
from tfdist.runtime.batches.host_feed.host_feed import HostFeed
from tfdist.runtime.strategy_settings import settings_of

_CHEAP = frozenset(
    {
        "AssertCardinality",
        "Batch",
        "Cache",
        "Concatenate",
        "Options",
        "ParallelBatch",
        "Prefetch",
        "Range",
        "Repeat",
        "Shard",
        "Shuffle",
        "Skip",
        "Take",
        "Tensor",
        "TensorSlice",
        "Zip",
    }
)
"""Stages that only order and join what lies in memory, by TensorFlow's classes. In some versions their names begin with
an underscore."""


def is_drawn_once(adapter: Any, dataset: Any, strategy: tf.distribute.Strategy) -> bool:
    """Returns whether one worker of each host draws the data; checks that all workers were given the same.

    All workers call it together, and those of a host get the same answer: one of them alone would wait for batches that
    nobody draws for it.

    Args:
        adapter: Keras's adapter of the data.
        dataset: What it gives.
        strategy: The strategy in force.

    Raises:
        DataError: On every worker, when the data of two differs.
    """
    why_not = why_not_once(adapter, dataset, strategy)
    once = check_same_data(adapter, strategy, "" if why_not else repr(dataset.element_spec))
    feed = settings_of(strategy).feed
    if feed is not None:
        say_once(_who_draws(feed, "" if once else why_not or "the workers describe its batches differently"))
        if once and not feed.draws and isinstance(adapter, PyDatasetAdapter):
            # Its threads or processes would make batches that nobody takes.
            adapter.enqueuer = None
        feed.runs_python |= once and _runs_python(adapter, dataset)
    return once


@contextlib.contextmanager
def handing_batches(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Around a call of `fit`, `evaluate` or `predict`: at the end of the outermost one nothing is drawn any more.

    Python code that makes batches may draw from the random generators of Python and NumPy, on the worker alone that
    runs it. Their states are then handed to the other workers of its host, for what the script draws next.
    """
    feed = settings_of(strategy).feed
    if feed is None:
        yield
        return
    with feed.calling():
        yield
    if feed.runs_python and not feed.is_in_call:
        feed.runs_python = False
        states = feed.from_drawer(random_state.read_own(strategy).tobytes())
        if not feed.draws:
            random_state.write_own(np.frombuffer(states, np.uint32))


def why_not_once(adapter: Any, dataset: Any, strategy: tf.distribute.Strategy) -> str:
    """Returns why each worker is to draw the batches itself; empty where one of its host should.

    Args:
        adapter: Keras's adapter of the data.
        dataset: What it gives.
        strategy: The strategy in force.
    """
    if settings_of(strategy).feed is None:
        return "no other worker of this host shares batches with this one"
    if not isinstance(dataset, tf.data.Dataset):
        return "the data is distributed already"
    if isinstance(adapter, ArrayDataAdapter):
        return "to cut rows of arrays costs less than to hand them over"
    leaves = tf.nest.flatten(dataset.element_spec)
    if len(leaves) > MOST_ARRAYS:
        return f"its batches have {len(leaves)} tensors, more than {MOST_ARRAYS}"
    if not all(map(_is_dense_number, leaves)):
        return "only dense tensors of numbers are handed over, and these batches have others (text, ragged, sparse)"
    if isinstance(adapter, TFDatasetAdapter) and _is_cheap(dataset):
        return "its stages only order and join what lies in memory, or change whole batches a little"
    return ""


_NUMBERS = frozenset(
    {
        *(tf.bool, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64),
        *(tf.bfloat16, tf.float16, tf.float32, tf.float64, tf.complex64, tf.complex128),
    }
)

_MAPS = frozenset({"Map", "ParallelMap"})
_BATCHES = frozenset({"Batch", "ParallelBatch"})

_LIGHT = frozenset(
    {
        *("Placeholder", "Const", "Identity", "NoOp", "Cast", "Reshape", "ExpandDims", "Squeeze", "OneHot", "Shape"),
        *("Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "Neg", "Equal", "Less", "Greater", "StridedSlice", "Pack"),
    }
)
"""Operations that take about as long as to copy what they are given."""


def _who_draws(feed: HostFeed, why_not: str) -> str:
    workers = ", ".join(map(str, feed.workers))
    if why_not:
        return f"Each of the workers {workers} of this host draws its batches itself: {why_not}."
    return f"Worker {feed.drawer} draws each batch once for the workers {workers} of this host."


def _is_dense_number(spec: Any) -> bool:
    return isinstance(spec, tf.TensorSpec) and spec.dtype in _NUMBERS


def _is_cheap(dataset: tf.data.Dataset) -> bool:
    """Returns whether to make a batch costs about as little as to hand it over: there is nothing to do for each
    sample."""
    todo = [(dataset, True)]
    while todo:
        stage, is_of_batches = todo.pop()
        name = type(stage).__name__.removeprefix("_").removesuffix("Dataset")
        if name in _MAPS and is_of_batches:
            if not all(_is_light(function.function.graph) for function in stage._functions()):
                return False
        elif name not in _CHEAP:
            return False
        todo.extend((source, is_of_batches and name not in _BATCHES) for source in stage._inputs())
    return True


def _is_light(graph: tf.Graph) -> bool:
    definition = graph.as_graph_def()
    return not definition.library.function and all(node.op in _LIGHT for node in definition.node)


def _runs_python(adapter: Any, dataset: tf.data.Dataset) -> bool:
    return not isinstance(adapter, TFDatasetAdapter) or any("PyFunc" in part for part in parts_of(dataset))
