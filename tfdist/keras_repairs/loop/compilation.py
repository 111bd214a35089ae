"""Decides whether XLA compiles the steps of a model, and how much of a step on several replicas.

Keras compiles with XLA on one GPU and leaves that out under a strategy. Here `jit_compile="auto"` is on several
replicas what it is on one device of their kind. How much of a step is compiled depends on how the replicas meet:

- the whole step, with its sums, where workers of one replica each exchange over NCCL (`xla_step`);
- each replica's forward and backward pass elsewhere (`forward.xla`);
- nothing where the replicas meet in the middle of that pass. Random numbers are then drawn as XLA draws them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from keras.src.trainers import trainer as base_trainer

from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.keras_repairs.model_checks.model_facts import synchronized_layers
from tfdist.keras_repairs.sharding_policies.shards import cuts_parameters
from tfdist.runtime.strategy_settings import settings_of

Function = Callable[..., Any]


def resolve_auto(original: Function) -> Function:
    """Repairs `Trainer._resolve_auto_jit_compile`: `auto` is what it is on one device of the replicas' kind."""

    def repaired(self: Any) -> bool:
        strategy = self.distribute_strategy
        settings = settings_of(strategy)
        if settings.jit != "auto":
            return settings.jit == "on" and base_trainer.model_supports_jit(self)
        if settings.emulates_xla or (strategy.num_replicas_in_sync > 1 and _is_on_gpus(strategy)):
            return base_trainer.model_supports_jit(self)
        return bool(original(self))

    return repaired


def compile_as_asked(original: Function) -> Function:
    """Repairs `Trainer.compile`: `--jit on` and `off` hold whatever the script says."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        asked = settings_of(self.distribute_strategy).jit
        if asked != "auto":
            self.jit_compile = asked == "on" and not self.run_eagerly

    return repaired


def compiles_parts(model: Any, *, trains: bool, of_rest: bool = False) -> bool:
    """Returns whether XLA compiles each replica's forward and backward pass, which it cannot where replicas meet in it.

    Compiling the layers between the normalizations one by one would lose what XLA gains by joining them.

    Args:
        model: Compiled, under a strategy of several replicas.
        trains: Whether the step trains.
        of_rest: Whether it is for batches alone for which a step is not compiled as a whole.
    """
    if not model.jit_compile:
        return False
    training = f"The training of {model.name!r}"
    if of_rest:
        training += ", where it is not compiled as a whole or a batch does not divide among the workers,"
    settings = settings_of(model.distribute_strategy)
    if settings.context > 1:
        _warn(training, "workers that share sequences by --context exchange them in the middle of a step.")
        return False
    if cuts_parameters():
        if settings.computes_in_slices:
            _warn(training, "workers that share weights by a layout exchange rows in the middle of a step.")
        else:
            _warn(training, "--shard zero3 gathers its weights in the middle of a step. --shard zero2 compiles it.")
        return False
    if trains and (layers := synchronized_layers(model)):
        _warn(
            training,
            f"the replicas exchange the statistics of the layer {layers[0].name!r} in the middle of a step. "
            "--batch-norm replica compiles it, and is not exact.",
        )
        return False
    return True


def leave_updates_out_of_xla(model: Any) -> None:
    """A step of one replica is compiled with its updates, which XLA cannot leave to the host."""
    alone = model.distribute_strategy.num_replicas_in_sync == 1
    if alone and model.jit_compile and settings_of(model.distribute_strategy).offload is not None:
        _warn(f"The training of {model.name!r}", "--offload optimizer updates on the host.")
        model.jit_compile = False


def _warn(training: str, reason: str) -> None:
    warn_once(f"{training} is not compiled with XLA: {reason} Random layers draw as it does.")


def _is_on_gpus(strategy: tf.distribute.Strategy) -> bool:
    return all(tf.DeviceSpec.from_string(device).device_type == "GPU" for device in strategy.extended.worker_devices)
