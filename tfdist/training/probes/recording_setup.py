"""Setup of a recorded run where it differs from the same run of `tfdist train`: devices and precision."""

from __future__ import annotations

from dataclasses import replace

import keras
import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.launch.recording_request import RecordingRequest
from tfdist.runtime.devices import DeviceRequest

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
