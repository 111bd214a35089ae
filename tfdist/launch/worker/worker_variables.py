"""Environment variables of a worker: what it gets where the user has chosen nothing, and with which it is refused.

Each function takes the environment that the worker would have. They read none of their own and change none, so the
doctor can ask them what a run would get.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tfdist.cluster.cluster_spec import Cluster
from tfdist.errors import UsageError

_ALLOCATOR = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TOP_PAD_": str(256 << 20),
}
_NVIDIA = Path("/dev/nvidiactl")
_NCCL_SHARED_GPU = "NCCL_MULTI_RANK_GPU_ENABLE"
"""Without it NCCL refuses two processes on one GPU; versions before 2.30 do not know it."""

_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
"""The variables in which gRPC looks for a proxy. TensorFlow's workers use gRPC, which exempts no host by itself."""

_BACKEND = "KERAS_BACKEND"
_LEGACY = "TF_USE_LEGACY_KERAS"
_TRUE = ("1", "true", "True")
_FROZEN = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"
_TRUE_IN_ANY_CASE = ("1", "true")
"""As TensorFlow reads its own variables, whatever the case."""


def allocator_settings(environ: Mapping[str, str], nvidia: Path = _NVIDIA) -> dict[str, str]:
    """Settings of glibc's malloc for workers that compute on the CPU.

    As soon as a dataset feeds the devices of a strategy, TensorFlow makes glibc return freed memory to the system at
    once, so every step has to allocate its tensors' memory again. A single arena that keeps its memory avoids that: it
    saves a quarter to a half of the step time on models from 3 to 98 MB. On machines with GPUs tensors are not in that
    memory and many threads may decode data, so malloc is left as it is.

    Args:
        nvidia: The device file of NVIDIA's driver.

    Returns:
        What to add; nothing where the user has configured malloc or the machine has a GPU.
    """
    if nvidia.exists() or any(name.startswith("MALLOC_") for name in environ) or "LD_PRELOAD" in environ:
        return {}
    return dict(_ALLOCATOR)


def proxy_settings(environ: Mapping[str, str], cluster: Cluster) -> dict[str, str]:
    """Exempts the cluster's hosts from the proxy that the environment names for other connections.

    Returns:
        What to add; nothing where no proxy is set.
    """
    if not any(environ.get(name) for name in _PROXIES):
        return {}
    # gRPC takes the first of the two that is set; `no_proxy` is also read by other libraries.
    exempt = environ.get("no_grpc_proxy") or environ.get("no_proxy") or ""
    hosts = dict.fromkeys(address.host for address in cluster.workers)
    return {"no_grpc_proxy": ",".join([*filter(None, [exempt]), *hosts])}


def nccl_settings(environ: Mapping[str, str], *, share_gpu: bool) -> dict[str, str]:
    """Allows NCCL to exchange between workers that share a GPU.

    Returns:
        What to add; nothing where the user has set it.
    """
    return {_NCCL_SHARED_GPU: "1"} if share_gpu and _NCCL_SHARED_GPU not in environ else {}


def keras_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Chooses Keras's TensorFlow backend where the environment chooses none, whatever ~/.keras/keras.json says.

    Returns:
        What to add.
    """
    return {} if environ.get(_BACKEND) else {_BACKEND: "tensorflow"}


class VariableObjection(NamedTuple):
    """A variable with which a training would be wrong.

    Attributes:
        name: What it is about, in two words.
        variable: Its name.
        text: What it does, and what is expected.
    """

    name: str
    variable: str
    text: str


def objections(environ: Mapping[str, str]) -> list[VariableObjection]:
    """The variables of `environ` with which a training would be wrong."""
    found = []
    if environ.get(_LEGACY) in _TRUE:
        value = environ[_LEGACY]
        text = f"{_LEGACY} is {value}, with which tf.keras is Keras 2. Expected Keras 3, which tfdist repairs"
        found.append(VariableObjection("legacy Keras", _LEGACY, text))
    if environ.get(_BACKEND, "") not in ("", "tensorflow"):
        text = f"{_BACKEND} is {environ[_BACKEND]}. Expected tensorflow, on which tfdist trains"
        found.append(VariableObjection("Keras backend", _BACKEND, text))
    if environ.get(_FROZEN, "").lower() in _TRUE_IN_ANY_CASE:
        text = (
            f"{_FROZEN} is {environ[_FROZEN]}, with which oneDNN's layers compute on with the weights of the first "
            "step, whatever the training makes of them. Expected that in inference alone"
        )
        found.append(VariableObjection("frozen weights", _FROZEN, text))
    return found


def check_objections(environ: Mapping[str, str]) -> None:
    """Refuses an environment with which a training would be wrong.

    Raises:
        UsageError: It asks for another backend than TensorFlow, for Keras 2, or for weights that never change.
    """
    for _, variable, text in objections(environ):
        raise UsageError(f"{text}. Unset {variable}.")
