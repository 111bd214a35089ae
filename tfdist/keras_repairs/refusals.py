"""What is known to train wrong, or to crash, on several replicas and is not repaired: refused with the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.replicas import is_one_of_several
from tfdist.keras_repairs.warn import warn_once

_ONE_DEVICE = "or train on one device (`tfdist train` without --workers, --nproc and --logical-devices)."


def check_model(model: Any) -> None:
    """Raises UnsupportedError when `model`, as compiled, would not give the numbers of one replica."""
    _check_execution(model)
    _check_overrides(model)
    if model.optimizer is not None:
        _check_optimizer(model.optimizer)
    _check_losses(model)
    if keras.distribution.distribution() is not None:
        raise UnsupportedError(
            "keras.distribution.set_distribution(...) does nothing on the TensorFlow backend: the model would train on "
            "one device. Remove it; `tfdist train` already distributes the model."
        )
    _warn_of_batch_statistics(model)


def ragged_predictions() -> UnsupportedError:
    """The error for predictions that cannot be gathered."""
    return UnsupportedError(
        "predict on several workers returns dense tensors only; this model returned a ragged or sparse one. Convert "
        "its output with `.to_tensor()` in the model, " + _ONE_DEVICE
    )


def masked_moments(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces `BatchNormalization._moments`: with a mask Keras takes each replica's statistics without a word."""

    def refusing(self: Any, inputs: Any, mask: Any) -> Any:
        if mask is not None and self.synchronized and is_one_of_several():
            raise UnsupportedError(
                f"The layer {self.name!r} is a BatchNormalization with synchronized=True on masked inputs, and with a "
                "mask Keras takes the statistics on each replica alone. Remove the mask before the layer, set "
                "synchronized=False to accept that, " + _ONE_DEVICE
            )
        return original(self, inputs, mask)

    return refusing


def _check_execution(model: Any) -> None:
    steps = getattr(model, "steps_per_execution", 1)
    if steps and steps > 1:
        raise UnsupportedError(
            f"compile(steps_per_execution=...) above 1 crashes in Keras under a strategy of several replicas. "
            f"Received: steps_per_execution={steps}. Leave it out, " + _ONE_DEVICE
        )
    if getattr(model, "jit_compile", False):
        raise UnsupportedError(
            "compile(jit_compile=True) crashes TensorFlow under a strategy of several replicas, as XLA cannot compile "
            "its collectives there. Expected jit_compile=False or 'auto', " + _ONE_DEVICE
        )


def _check_overrides(model: Any) -> None:
    for name in ("train_step", "test_step", "compute_loss"):
        owner = next(cls for cls in type(model).__mro__ if name in cls.__dict__)
        if not owner.__module__.startswith("keras.src.") or owner.__module__.startswith("keras.src.distillation"):
            raise UnsupportedError(
                f"{owner.__module__}.{owner.__qualname__} defines its own {name}(), and tfdist cannot see whether what "
                "it computes adds up over the replicas. Express it with compile(loss=...), add_loss and metrics, write "
                "the loop yourself with tfdist.strategy() and strategy.run, " + _ONE_DEVICE
            )


def _check_optimizer(optimizer: Any) -> None:
    found = {
        "gradient_accumulation_steps": getattr(optimizer, "gradient_accumulation_steps", None),
        "ema_overwrite_frequency": getattr(optimizer, "use_ema", False)
        and getattr(optimizer, "ema_overwrite_frequency", None),
    }
    for name, value in found.items():
        if value:
            raise UnsupportedError(
                f"The optimizer's {name} crashes in Keras under a strategy of several replicas. "
                f"Received: {name}={value}. Leave it out, " + _ONE_DEVICE
            )
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise UnsupportedError(
            "Loss scaling (LossScaleOptimizer, precision mixed_float16) checks each replica's gradient by itself: an "
            "overflow on one poisons or deadlocks the others. Use mixed_bfloat16 or float32, " + _ONE_DEVICE
        )


def _check_losses(model: Any) -> None:
    for loss in keras.tree.flatten(getattr(model, "loss", None)):
        if isinstance(loss, keras.losses.Loss) and loss.reduction in (None, "none"):
            raise UnsupportedError(
                f"The loss {loss.name!r} has reduction={loss.reduction!r}, so what Keras adds up depends on the number "
                "of replicas. Expected 'sum_over_batch_size', 'mean_with_sample_weight' or 'sum', " + _ONE_DEVICE
            )


def _warn_of_batch_statistics(model: Any) -> None:
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization) and not layer.synchronized and layer.trainable:
            warn_once(
                "BatchNormalization takes its statistics on each replica alone, so the numbers differ from those of "
                "one replica. Set synchronized=True on the layers for statistics of the global batch."
            )
            return
