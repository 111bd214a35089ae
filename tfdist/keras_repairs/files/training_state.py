"""Variables of a training whose value differs from replica to replica, as a checkpoint must hold them.

Keras's file of weights and optimizer holds one value of each variable, which is enough for all others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.random.seed_generator import global_seed_generator
from keras.src.trainers.compile_utils import CompileMetrics

from tfdist.keras_repairs.base.draw_streams import DrawStreams, streams_of
from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.base.model_optimizers import optimizers_of
from tfdist.keras_repairs.base.replica_copies import copies
from tfdist.keras_repairs.forward.global_batch_metrics import has_full_state
from tfdist.keras_repairs.inputs.symbolic_build import build_parts
from tfdist.keras_repairs.sharding_policies.optimizer_policy import is_sharded
from tfdist.keras_repairs.sharding_policies.shards import shard_of
from tfdist.runtime.replica_values import ReplicaCopies
from tfdist.runtime.workers import local_replicas

_GLOBAL_SEEDS = "global_seed_generator"
_GLOBAL_SEEDS_NAME = "seeds/global"
_DRAWN = "drawn"


def persistent_state(model: keras.Model) -> dict[str, ReplicaCopies]:
    """Statistics that are not synchronised, gradients that are being accumulated, and metrics that no epoch resets.

    Args:
        model: Built and compiled, with its optimizer and its metrics.
    """
    found = {f"weights/{number}": ReplicaCopies(copies(v), False, True) for number, v in enumerate(_not_trained(model))}
    found |= {
        f"accumulated/{number}": ReplicaCopies(copies(v), adds_up=True, is_saved=True)
        for number, v in enumerate(_accumulators(model))
    }
    return found | {f"never_reset/{number}": _of_metric(v) for number, v in enumerate(_never_reset(model))}


def transient_state(model: keras.Model, *, metrics: bool) -> dict[str, ReplicaCopies]:
    """Returns what an evaluation changes: seeds and metrics, by name.

    Args:
        model: Built and compiled, with its metrics.
        metrics: Whether to include metrics: between two epochs they mean nothing.
    """
    found = {f"seeds/{number}": ReplicaCopies(copies(v), False) for number, v in enumerate(_seeds(model))}
    generator = global_state.get_global_attribute(_GLOBAL_SEEDS)
    if generator is not None:
        found[_GLOBAL_SEEDS_NAME] = ReplicaCopies(copies(generator.state), False)
    found |= {f"generators/{number}": state for number, state in enumerate(_generators(model))}
    drawn = {call: streams.copies for call, streams in streams_of(model).items() if streams.copies}
    found |= {f"{_DRAWN}/{call}": ReplicaCopies(counts, False) for call, counts in drawn.items()}
    return found | (dict(_metrics(model)) if metrics else {})


def prepare(model: keras.Model, names: Collection[str]) -> None:
    """Makes the variables of a state with `names` that a process makes at first need only; in the strategy's scope."""
    if _GLOBAL_SEEDS_NAME in names:
        global_seed_generator()
    for name in names:
        kind, _, call = name.partition("/")
        if kind == _DRAWN and model.distribute_strategy.num_replicas_in_sync > 1:
            streams = streams_of(model)
            streams.setdefault(call, DrawStreams(model.distribute_strategy)).make()


def build(model: keras.Model, dataset: Any) -> None:
    """Builds what a model lacks, metrics and optimizer too, as the first step on batches of `dataset` would.

    Keras builds in the first step, which is too late to restore variables. A step that cannot be traced builds by the
    shapes of the batches; a model without a `call`, whose own steps call its parts, is left as it is then.
    """
    trace = fit_state(model).trace_step
    if trace is not None:
        # What is wrong with the step it says itself, where it runs.
        with contextlib.suppress(Exception):
            trace(dataset.element_spec)
    with model.distribute_strategy.scope():
        build_parts(model, dataset.element_spec)


def optimizer_sizes(model: keras.Model) -> list[int]:
    """Returns how many variables each optimizer of `model` has; 0 before it is built."""
    return [len(optimizer.variables) if optimizer.built else 0 for optimizer in optimizers_of(model)]


def _not_trained(model: keras.Model) -> list[keras.Variable]:
    """Weights that no gradient changes, such as the statistics of BatchNormalization.

    Those that are cut have no other value on any worker.
    """
    trained = {id(variable) for variable in model.trainable_weights}
    others = (variable for variable in model.weights if id(variable) not in trained)
    return [variable for variable in others if shard_of(variable) is None]


def _seeds(model: keras.Model) -> list[keras.Variable]:
    others = {id(variable) for variable in (*model.weights, *model.metrics_variables)}
    return [variable for variable in model.variables if id(variable) not in others]


def _generators(model: keras.Model) -> Iterator[ReplicaCopies]:
    """The states of the generators of TensorFlow's that the model and its layers hold, each once."""
    seen: set[int] = set()
    for layer in model._flatten_layers():
        for held in vars(layer).values():
            if isinstance(held, tf.random.Generator) and id(held) not in seen:
                seen.add(id(held))
                strategy = model.distribute_strategy
                states = strategy.experimental_local_results(held.state)
                # A state that all replicas share stands for each of them.
                yield ReplicaCopies(states * (len(local_replicas(strategy)) // len(states)), False)


def _accumulators(model: keras.Model) -> list[keras.Variable]:
    """Without those of which each worker has a shard of the sum over all: these are saved with the optimizer."""
    return [
        variable
        for optimizer in optimizers_of(model)
        if not is_sharded(optimizer)
        for variable in getattr(optimizer, "_accumulated_gradients", None) or ()
    ]


def _metrics(model: keras.Model) -> Iterator[tuple[str, ReplicaCopies]]:
    number = 0
    for metric in _single_metrics(model):
        for variable in metric.variables:
            yield f"metrics/{number}", _of_metric(variable)
            number += 1


def _of_metric(variable: keras.Variable) -> ReplicaCopies:
    return ReplicaCopies(copies(variable), adds_up=not has_full_state(variable))


def _never_reset(model: keras.Model) -> list[keras.Variable]:
    """Those of metrics that a model of the user's has, and leaves out of its own `metrics`: they count on and on."""
    listed = {id(metric) for metric in model.metrics}
    return [variable for metric in model._metrics if id(metric) not in listed for variable in metric.variables]


def _single_metrics(model: keras.Model) -> Iterator[keras.metrics.Metric]:
    """The metrics of a model, those of `compile` one by one."""
    for metric in model.metrics:
        yield from metric.metrics if isinstance(metric, CompileMetrics) else (metric,)
