"""The position of a `fit` in its data, and how another `fit` on the same data resumes there.

Without random operations all iterators over a dataset give the same. `shuffle` draws the seeds of each iterator from a
generator which TensorFlow's global seed decides, so that the n-th iterators of two processes give the same. Nothing is
known of anything else that random numbers, threads or Python code decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter
from tensorflow.python.eager import context

from tfdist.keras_repairs.inputs import array_shuffle
from tfdist.keras_repairs.inputs.epoch_iterator import start_partial_epoch, whole_batches
from tfdist.order.epoch_span import Position
from tfdist.runtime.batches.dataset_description import EpochCounter, PipelineOrder, description_of

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


@dataclass(frozen=True)
class FitData:
    """The data of a `fit`, as far as it decides the order of the samples.

    Attributes:
        kind: What it is, as messages say it.
        steps: Steps of an epoch; None where unknown.
        batch_size: Samples of a global batch; 0 where unknown.
        samples: Samples of an epoch; 0 where unknown.
        facts: What must be the same for a training to resume with it.
        why_not: Why a training cannot resume within an epoch; empty where it can.
    """

    kind: str
    steps: int | None
    batch_size: int = 0
    samples: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    why_not: str = ""


def describe(iterator: Any) -> FitData:
    """Describes the data of a `fit` by its iterator, Keras's `TFEpochIterator`."""
    adapter, steps = iterator.data_adapter, iterator.num_batches
    ordered = _ordered(iterator)
    if ordered is not None:
        facts = dict(ordered.facts)
        data = FitData("a pipeline of tfdist.data", steps, facts["batch_size"], facts["samples"], facts)
    elif isinstance(adapter, ArrayDataAdapter):
        data = _of_arrays(adapter, steps)
    elif isinstance(adapter, TFDatasetAdapter) and isinstance(whole_batches(iterator), tf.data.Dataset):
        why_not = why_not_deterministic(whole_batches(iterator))
        data = FitData("a tf.data.Dataset", steps, facts={"steps": steps}, why_not=why_not)
    else:
        name = type(adapter).__name__.removesuffix("Adapter").removesuffix("Data")
        return FitData(f"a {name}", steps, why_not="Python code of the script's decides its order")
    asked, known = iterator.steps_per_epoch, adapter.num_batches
    if not data.why_not and asked and not _is_endless(iterator) and asked != known:
        # Epochs start anywhere in the data.
        return FitData(data.kind, steps, why_not="steps_per_epoch is not the number of its batches")
    return data


def fast_forward(iterator: Any, epochs: int, step: int) -> None:
    """Makes a `fit` that has started no epoch resume where another one on the same data ended.

    Args:
        iterator: The iterator of the `fit`. Its data can resume within an epoch, or `step` is 0.
        epochs: Epochs that the other one had done.
        step: Batches of the next epoch that it had done.
    """
    batches = whole_batches(iterator)
    if _is_endless(iterator):
        start_partial_epoch(iterator, step, batches.skip(epochs * iterator.steps_per_epoch + step))
        return
    count = _epochs(iterator)
    if count is None:
        _replay(iterator, epochs)
    else:
        count.next += epochs
    ordered = _ordered(iterator)
    if step and ordered is not None:
        start_partial_epoch(iterator, step, ordered.begin(Position(ordered.epochs.next, step)))
        ordered.epochs.next += 1
    elif step:
        start_partial_epoch(iterator, step, batches.skip(step))
        if count is not None and step == iterator.num_batches:
            # Nothing of that epoch is read any more.
            count.next += 1


def repeat_epoch_ends(iterator: Any, epochs: int) -> None:
    """Lets a PyDataset do what it does between epochs, such as to shuffle, for those that another `fit` had done.

    Args:
        iterator: The iterator of a `fit` or of its validation, which has started no epoch.
        epochs: How many the other one had done.
    """
    adapter = iterator.data_adapter
    # Not by way of the adapter, whose threads would begin to make batches.
    for _ in range(epochs if isinstance(adapter, PyDatasetAdapter) else 0):
        adapter.py_dataset.on_epoch_begin()
        adapter.py_dataset.on_epoch_end()


def repeat_validation_ends(model: Any, evaluations: int) -> None:
    """The same of the validation data of the `fit` that is under way: Keras ends an epoch before each, and after it."""
    iterator = getattr(model, "_eval_epoch_iterator", None)
    if iterator is None or not isinstance(iterator.data_adapter, PyDatasetAdapter):
        return
    for _ in range(evaluations):
        repeat_epoch_ends(iterator, 1)
        iterator.data_adapter.py_dataset.on_epoch_end()


def _of_arrays(adapter: Any, steps: int | None) -> FitData:
    samples, batch_size = int(adapter._num_samples), int(adapter._batch_size)
    shuffle = adapter._shuffle if isinstance(adapter._shuffle, str) else bool(adapter._shuffle)
    is_own = array_shuffle.epochs_of(adapter) is not None
    facts = {"samples": samples, "batch_size": batch_size, "shuffle": shuffle, "order": "tfdist" if is_own else "Keras"}
    why_not = ""
    if shuffle and not is_own and context.global_seed() is None:
        why_not = "they are shuffled and TensorFlow has no global seed"
    return FitData("arrays", steps, batch_size, samples, facts, why_not)


def _ordered(iterator: Any) -> PipelineOrder | None:
    """The order of the batches that the replicas get, where they come from tfdist.data."""
    return description_of(iterator._distributed_dataset).order


def _epochs(iterator: Any) -> EpochCounter | None:
    """The counter of epochs of data whose order is tfdist's."""
    ordered = _ordered(iterator)
    return array_shuffle.epochs_of(iterator.data_adapter) if ordered is None else ordered.epochs


def _is_endless(iterator: Any) -> bool:
    """Returns whether all epochs are read from one iterator over data without an end."""
    batches = whole_batches(iterator)
    return bool(
        iterator.steps_per_epoch
        and isinstance(batches, tf.data.Dataset)
        and int(batches.cardinality()) == tf.data.INFINITE_CARDINALITY
    )


def _replay(iterator: Any, epochs: int) -> None:
    """Opens and drops as many iterators as the epochs before have opened: each draws seeds of its own."""
    batches = whole_batches(iterator)
    if isinstance(batches, tf.data.Dataset):
        # Keras opens one at the start of an epoch and, where it knows the number of batches, another at its end.
        is_known = iterator.data_adapter.num_batches is not None and iterator.steps_per_epoch is None
        for _ in range(epochs * (2 if is_known else 1)):
            iter(batches)
