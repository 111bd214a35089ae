"""Refuses models that are known to train wrong, or to crash, on several replicas; the error names the remedy."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.global_devices import devices_of_all
from tfdist.keras_repairs.base.warn_once import say_once, warn_once
from tfdist.keras_repairs.model_checks.model_facts import unsynchronized_layers
from tfdist.keras_repairs.sharded_parameters.model_parallel import check_model_parallel, model_parallel
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import worker_count


def check_distribution(model: Any, adapter: Any = None) -> None:
    """Accepts the distribution that a script has set where it means what the run does, and logs that once.

    Args:
        model: Of several replicas.
        adapter: Keras's adapter of the data that is trained on; None where it is given batch by batch.

    Raises:
        UnsupportedError: It would shard weights in a way of its own, or keep the workers' data apart.
    """
    distribution, strategy = keras.distribution.distribution(), model.distribute_strategy
    if model_parallel() is not None:
        check_model_parallel(strategy)
    if distribution is None:
        return
    _check_data(distribution, strategy, adapter)
    if isinstance(distribution, keras.distribution.ModelParallel):
        return
    if type(distribution) is not keras.distribution.DataParallel:
        raise UnsupportedError(
            f"The script sets a keras.distribution.{type(distribution).__name__}, a distribution of its own, which "
            "does nothing on the TensorFlow backend: no weight would be sharded. Expected a "
            "keras.distribution.DataParallel, which is what `tfdist train` does anyway, or a ModelParallel; or leave "
            "keras.distribution out."
        )
    named = {str(name).lower() for name in distribution.device_mesh.devices.flat}
    others = sorted({*devices_of_all(strategy)} - named)
    beside = f" It does not name {', '.join(others)}, which train, too: --devices chooses others." if others else ""
    say_once(
        f"keras.distribution.DataParallel is what this run does: {strategy.num_replicas_in_sync} replicas, each with "
        f"its part of every batch.{beside}"
    )


def _check_data(distribution: Any, strategy: tf.distribute.Strategy, adapter: Any) -> None:
    """Refuses batches that come one by one, where a script keeps the workers' data apart: nobody knows of them."""
    if distribution.auto_shard_dataset or worker_count(strategy) == 1 or adapter is not None:
        return
    raise UnsupportedError(
        f"The script's keras.distribution.{type(distribution).__name__} has auto_shard_dataset=False, and a batch is "
        "given to a method that trains on one: it may be the whole global batch, or a worker's own rows. Expected fit, "
        "evaluate or predict, with a dataset of the worker's own rows or with arrays that are the same on all workers. "
        "Or leave the argument out, and give each worker the whole batch."
    )


_ONE_DEVICE = "or train on one device (`tfdist train` without --workers, --nproc and --logical-devices)."


def check_model(model: Any, adapter: Any = None) -> None:
    """Raises UnsupportedError when `model`, as compiled, would not give the numbers of one replica.

    Args:
        model: Compiled.
        adapter: Keras's adapter of the data that is trained on; None where it is given batch by batch.
    """
    _check_losses(model)
    _check_layers(model)
    check_distribution(model, adapter)
    _warn_of_batch_statistics(model)


def meeting_in_a_branch(model: Any) -> UnsupportedError:
    """The error for a step in which the replicas would meet where TensorFlow lets no replicas of one process meet."""
    return UnsupportedError(
        f"A step of {model.name!r} ({type(model).__qualname__}) calls optimizer.apply(...), tfdist.gathered(...) or "
        "something else for which the replicas meet inside of a tf.cond or a loop of TensorFlow's, where they cannot. "
        "Call it outside of that (to update once in several steps, by the optimizer's gradient_accumulation_steps), "
        + _ONE_DEVICE
    )


def deciding_by_batch(model: Any) -> UnsupportedError:
    """The error for a step in which each replica would decide by its own samples, outside of the user's layers."""
    return UnsupportedError(
        f"A step of {model.name!r} ({type(model).__qualname__}) takes a side of a branch or of a limit, or repeats a "
        "loop, by the values of the batch, in an activation, a regularizer, a gradient or a metric: each replica would "
        "decide by its own. Compute what decides in a function and call tfdist.gathered(function)(tensors), which "
        "takes those of all, "
        + _ONE_DEVICE
    )


def coupling_in_a_gradient(function: Any) -> UnsupportedError:
    """The error for a step with a `tf.custom_gradient` whose gradients replicas cannot compute by parts."""
    return UnsupportedError(
        f"The gradient of {getattr(function, '__qualname__', function)!r}, a tf.custom_gradient, couples the samples "
        "of a batch, as tf.clip_by_norm(upstream, limit) does: each replica would compute it of its own part of the "
        "gradients. Take each sample by itself there (tf.clip_by_norm(upstream, limit, axes=[-1])), clip the gradients "
        "of weights instead, by clipnorm or global_clipnorm of the optimizer, " + _ONE_DEVICE
    )


def statistics_in_a_loop(layer: Any) -> UnsupportedError:
    """The error for statistics that are taken where TensorFlow lets no replicas of one process meet."""
    return UnsupportedError(
        f"The layer {layer.name!r} takes the statistics of the global batch inside of a loop, a tf.cond or a "
        "tf.function of its own, where the replicas of a worker cannot meet. Call it outside of that (in a recurrent "
        "layer, with unroll=True), let each replica take its own statistics (--batch-norm replica), " + _ONE_DEVICE
    )


def _check_losses(model: Any) -> None:
    gathers = settings_of(model.distribute_strategy).gather
    for loss in keras.tree.flatten(getattr(model, "loss", None)):
        if isinstance(loss, keras.losses.Loss) and _hides_its_divisor(loss, gathers=gathers):
            raise UnsupportedError(
                f"The loss {loss.name!r} ({type(loss).__qualname__}) defines __call__() itself, and tfdist cannot see "
                "what it divides by. Define call() instead, which returns one value a sample, or put "
                "tfdist.gathered(loss) in its place, " + _ONE_DEVICE
            )


def check_reductions(model: Any) -> None:
    """Raises UnsupportedError where Keras's own step would add up what a loss leaves unreduced."""
    for loss in keras.tree.flatten(getattr(model, "loss", None)):
        if isinstance(loss, keras.losses.Loss) and loss.reduction in (None, "none"):
            raise UnsupportedError(
                f"The loss {loss.name!r} has reduction={loss.reduction!r}, so what Keras adds up depends on the number "
                "of replicas. Expected 'sum_over_batch_size', 'mean_with_sample_weight' or 'sum', or a step of one's "
                "own that reduces it, " + _ONE_DEVICE
            )


def reduces_itself(loss: keras.losses.Loss) -> bool:
    """Returns whether a loss object reduces its values itself, rather than leave it to Keras."""
    return type(loss).__call__ is not keras.losses.Loss.__call__


def _hides_its_divisor(loss: Any, *, gathers: bool) -> bool:
    """Returns whether a loss object reduces its values itself, and is not gathered, which is to call it as on one
    device."""
    declared = getattr(loss, "declared", None)
    if declared is not None:
        return declared.value != "gathered" and _hides_its_divisor(loss.loss, gathers=False)
    return not gathers and reduces_itself(loss)


def _check_layers(model: Any) -> None:
    for layer in model._flatten_layers():
        if getattr(layer, "stateful", False) and isinstance(layer, keras.layers.RNN):
            raise UnsupportedError(
                f"The layer {layer.name!r} is recurrent with stateful=True: its state belongs to the places of a batch "
                "of fixed size, of which each replica gets a part. Set stateful=False, " + _ONE_DEVICE
            )
        if isinstance(layer, keras.layers.TextVectorization) and _pads_to_the_longest(layer):
            raise UnsupportedError(
                f"The layer {layer.name!r} (TextVectorization) pads texts to the longest one that it is called with, "
                "which is that of a replica's samples. Give it output_sequence_length=..., apply it in the data "
                "(dataset.map), " + _ONE_DEVICE
            )
        if isinstance(layer, keras.layers.AugMix):
            raise UnsupportedError(
                f"The layer {layer.name!r} (AugMix) chooses its transformations with Python's random module while a "
                "step is traced, which each replica is. Apply it in the data (dataset.map(layer)), " + _ONE_DEVICE
            )


def _warn_of_batch_statistics(model: Any) -> None:
    if unsynchronized_layers(model):
        warn_once(
            "--batch-norm replica: BatchNormalization takes its statistics on each replica alone, so the numbers "
            "differ from those of one replica, the more the fewer samples a replica has. Leave it out for statistics "
            "of the global batch."
        )


def _pads_to_the_longest(layer: keras.layers.TextVectorization) -> bool:
    config = layer.get_config()
    return config["output_mode"] == "int" and config["output_sequence_length"] is None and not config["ragged"]
