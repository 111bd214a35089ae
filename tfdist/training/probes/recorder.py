"""Recorder of a run for `tfdist verify`: loss, metrics, gradients and weights, step by step.

Perturbation of a model's weights by about a rounding error, to see what rounding alone does to its training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakSet

import keras
import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.keras_repairs.model_checks.model_facts import model_facts
from tfdist.keras_repairs.sharding_policies.full_state import full_weights
from tfdist.launch.worker_requests import RecordingRequest
from tfdist.runtime.devices import DeviceRequest
from tfdist.training.metric_values import loss_scale, metric_values
from tfdist.training.probes.probe_files import Moment, Recording
from tfdist.training.probes.step_fingerprints import StepFingerprints, sample
from tfdist.training.probes.step_observer import StepObserverCallback

_POLICY_SETTERS = ("set_dtype_policy", "set_global_policy")


def devices_for(request: DeviceRequest, replicas: int, workers: int, seen: int) -> DeviceRequest:
    """The devices on which a job of `workers` workers, all of this machine, has `replicas` replicas.

    Args:
        request: The devices that the job was asked to use; its choice of GPUs is kept, its split is not.
        replicas: Replicas of the whole job.
        workers: Workers of the whole job; several have one replica each.
        seen: GPUs that TensorFlow sees.

    Raises:
        UsageError: There are GPUs, but fewer than workers.
    """
    gpus = tuple(range(seen)) if request.gpus is None else request.gpus
    if not gpus or len(gpus) >= replicas:
        logical = replicas if not gpus and workers == 1 and replicas > 1 else None
        return replace(request, gpus=gpus[:replicas] or request.gpus, logical=logical)
    if workers > 1 and request.share_gpu:
        return replace(request, gpus=gpus, logical=None)
    if workers > 1:
        raise UsageError(
            f"{workers} workers need a GPU each. Received: {len(gpus)} GPU(s). Use a smaller --nproc, or --share-gpu."
        )
    used = gpus if replicas % len(gpus) == 0 else gpus[:1]
    return replace(request, gpus=used, logical=replicas // len(used))


def impose_settings(recording: RecordingRequest) -> None:
    """Makes every model that is compiled from now on follow the request, whatever the script says.

    float32 is computed in full: by default GPUs round the factors of products to TensorFloat-32, in some kernels and
    not in others, so that the size of a replica's batch would make a difference a thousand times that of rounding.
    """
    tf.config.experimental.enable_tensor_float_32_execution(False)
    if recording.precision is not None:
        _impose_policy(recording.precision)


def _impose_policy(policy: str) -> None:
    keras.config.set_dtype_policy(policy)
    for module in (keras.config, keras.mixed_precision):
        for name in _POLICY_SETTERS:
            if hasattr(module, name):
                setattr(module, name, lambda policy: None)


_SEED = 11
_SPACING = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""Distance of neighbouring numbers of a dtype, relative to them."""

_HALF = ("float16", "bfloat16")


class RecordingComplete(SystemExit):
    """Ends the worker once its recording is complete, as an exit of the script with code 0."""

    def __init__(self) -> None:
        super().__init__(0)


class Recorder:
    """Records this worker's training. Make it under the strategy, on every worker, before the first step.

    Its methods read variables that belong to all replicas: every worker calls them at the same places.

    Args:
        request: How many steps to record, and where to.
        index: This worker's index.
        strategy: The process's strategy.
    """

    def __init__(self, request: RecordingRequest, index: int, strategy: tf.distribute.Strategy) -> None:
        self.fingerprints = StepFingerprints(strategy)
        self._steps = request.steps
        self._perturbed = request.perturbed
        self._file = request.file(index)
        self._strategy = strategy
        self._step = self._next_step = self._epoch_begin = 0
        self._scale = 1.0
        self._moments: list[Moment] = []
        self._models: list[dict[str, Any]] = []
        self._seen: WeakSet[keras.Model] = WeakSet()

    def callback(self) -> keras.callbacks.Callback:
        """A new callback that has one `fit` recorded; `evaluate` and `predict` are not."""
        return StepObserverCallback(self)

    def begin_fit(self, model: keras.Model, epoch_steps: int | None) -> None:
        """Records the model before the first step of a `fit`.

        Args:
            model: Built and compiled.
            epoch_steps: Steps of an epoch, where Keras knows them.
        """
        self._models.append({**model_facts(model), "epoch_steps": epoch_steps})
        self._record(model)
        if self._perturbed and model not in self._seen:
            perturb_weights(model)
        self._seen.add(model)

    def begin_epoch(self) -> None:
        """Notes where the steps of an epoch begin to count."""
        self._epoch_begin = self._step

    def begin_steps(self, model: keras.Model, batch: int) -> None:
        """Resets what a validation since the last step has added, and notes which steps of the epoch come now."""
        self.fingerprints.reset()
        self._scale = loss_scale(model)
        self._next_step = self._epoch_begin + batch + (model.steps_per_execution or 1)

    def end_steps(self, model: keras.Model, logs: Any) -> None:
        """Records the model; after the last step asked for, ends the process."""
        self._step = self._next_step
        norm, data = self.fingerprints.read()
        # Micro-batches are summed over the replicas only when their gradients are applied.
        accumulates = self._models[-1]["accumulates"]
        self._record(model, metric_values(model, logs), None if accumulates else norm / self._scale, data)
        if self._step >= self._steps:
            self.write()
            raise RecordingComplete

    def end_epoch(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Does nothing: the metrics of an epoch are those after its last step."""

    def end_fit(self, model: keras.Model) -> None:
        """Writes what was recorded so far."""
        self.write()

    def write(self) -> None:
        """Makes or replaces this worker's recording."""
        facts = {
            "gpus": len(tf.config.list_physical_devices("GPU")),
            "replicas": self._strategy.num_replicas_in_sync,
            "models": self._models,
        }
        Recording(facts, self._moments).write(self._file)

    def _record(
        self,
        model: keras.Model,
        values: Mapping[str, float] | None = None,
        norm: float | None = None,
        data: float | None = None,
    ) -> None:
        with full_weights(model):
            weights, differences = sample(model.weights, self._steps + 1, self._strategy)
        fit = len(self._models) - 1
        self._moments.append(Moment(self._step, fit, values or {}, norm, data, weights, differences))


def perturb_weights(model: keras.Model) -> None:
    """Multiplies every element of the trainable weights with 1 + e or 1 - e, the same ones in every run.

    e is four times the spacing of numbers in the weight's dtype, relative to them; or half of that in the dtype that
    the model computes in, where it has 16 bits.

    Args:
        model: Built, on one replica.
    """
    half = [_SPACING[dtype] for dtype in {str(layer.compute_dtype) for layer in model.layers} if dtype in _HALF]
    for number, weight in enumerate(model.trainable_weights):
        if weight.dtype not in _SPACING:
            continue
        value = tf.convert_to_tensor(weight.value)
        up = tf.random.stateless_uniform(value.shape, [_SEED, number]) < 0.5
        e = max([4 * _SPACING[weight.dtype], *(spacing / 2 for spacing in half)])
        weight.assign(tf.where(up, value * (1 + e), value * (1 - e)))
