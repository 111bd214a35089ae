"""Who trains a model on the GPUs at hand: for each its processes, all with the same global batch."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.comparison.process_group import ROOT, Command
from benchmarks.comparison.rounds import Processes
from benchmarks.comparison.torch_python import TorchPython
from benchmarks.gpu.gpu_models import TrainingSpec

PARTS = {
    "one": ("plain", "tfdist"),
    "replicas": ("tfdist", "workers", "replicas"),
    "peers": ("tfdist", "workers", "ddp", "ddp-compiled", "jax"),
}
"""What is compared, by part: names of `ABOUT`."""

ABOUT = {
    "plain": "plain Keras on one GPU",
    "tfdist": "`fit` under `tfdist train` on the same GPU",
    "replicas": "`fit` under `tfdist train`, two replicas of one process",
    "workers": "`fit` under `tfdist train`, two workers, over NCCL on GPUs",
    "ddp": "PyTorch's DistributedDataParallel, two workers, over NCCL on GPUs, float32 by way of TensorFloat-32",
    "ddp-compiled": "the same by `torch.compile`",
    "jax": "plain Keras on JAX, by `keras.distribution.DataParallel`",
}

_WORKERS = 2
_SHARES_FROM = (2, 30)


@dataclass(frozen=True)
class Machine:
    """What all of them train on.

    Attributes:
        gpus: Its GPUs; several replicas take two of them where there are two.
        torch: The interpreter with PyTorch; None without one.
        jax: Whether this interpreter has JAX.
        train_options: More options for `tfdist train`.
    """

    gpus: int
    torch: TorchPython | None = None
    jax: bool = False
    train_options: tuple[str, ...] = ()

    @property
    def shares(self) -> bool:
        """Whether several replicas share one GPU."""
        return self.gpus == 1

    @property
    def together(self) -> tuple[str, ...]:
        """The GPUs of several replicas, as `tfdist train` takes them."""
        return ("--devices", ",".join(map(str, range(min(self.gpus, _WORKERS))))) if self.gpus else ()


def has_jax() -> bool:
    """Whether this interpreter has JAX; it is not imported."""
    return importlib.util.find_spec("jax") is not None


def trainers(machine: Machine, spec: TrainingSpec, parts: tuple[str, ...]) -> dict[str, Processes]:
    """Those of some parts that there are for a model, by name."""
    fit = functools.partial(_fit, machine, spec)
    one = ("--devices", "0") if machine.gpus else ()
    several = () if machine.gpus > 1 else ("--logical-devices", str(_WORKERS))
    shared = ("--share-gpu",) if machine.shares else ()
    made: dict[str, Processes] = {
        "plain": functools.partial(_plain, machine, spec, {}),
        "tfdist": functools.partial(fit, one),
        "replicas": functools.partial(fit, ("--nproc", "1", *machine.together, *several)),
        "workers": functools.partial(fit, ("--nproc", str(_WORKERS), *machine.together, *shared)),
    }
    # PyTorch has no ResNet50 of its own.
    if machine.torch is not None and spec.model != "resnet50":
        made["ddp"] = functools.partial(_ddp, machine, spec)
        made["ddp-compiled"] = functools.partial(_ddp, machine, replace(spec, compiles=True))
    if machine.jax:
        made["jax"] = functools.partial(_plain, machine, spec, {"KERAS_BACKEND": "jax"})
    wanted = dict.fromkeys(name for part in parts for name in PARTS[part])
    return {name: made[name] for name in wanted if name in made}


@contextlib.contextmanager
def _plain(machine: Machine, spec: TrainingSpec, chosen: Mapping[str, str], folder: Path) -> Iterator[list[Command]]:
    # TensorFlow and JAX take all GPUs that they see.
    seen = _WORKERS if chosen else 1
    visible = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(min(machine.gpus, seen))))} if machine.gpus else {}
    environment = {"KERAS_BACKEND": "tensorflow", **visible, **chosen}
    yield [Command((sys.executable, "-m", "benchmarks.workers.gpu_fit", spec.argument()), _cores(), environment)]


@contextlib.contextmanager
def _fit(machine: Machine, spec: TrainingSpec, options: tuple[str, ...], folder: Path) -> Iterator[list[Command]]:
    train = (sys.executable, "-m", "tfdist", "train", "--quiet", "--run-dir", str(folder / "run"), *options)
    target = ("-m", "benchmarks.workers.gpu_fit", spec.argument())
    yield [Command((*train, *machine.train_options, *target), _cores())]


@contextlib.contextmanager
def _ddp(machine: Machine, spec: TrainingSpec, folder: Path) -> Iterator[list[Command]]:
    assert machine.torch is not None
    own = tuple(machine.torch.facts.get("nccl", ()))
    environment = torch_environment(os.environ, shares=machine.shares, nccl=own)
    placed = [replace(spec, workers=_WORKERS, index=index, folder=str(folder)) for index in range(_WORKERS)]
    program = (machine.torch.path, "-m", "benchmarks.workers.gpu_torch")
    yield [Command((*program, each.argument()), _cores(), environment) for each in placed]


def torch_environment(
    environ: Mapping[str, str], *, shares: bool = False, nccl: tuple[int, ...] = ()
) -> dict[str, str | None]:
    """Variables with which PyTorch has its own CUDA, wherever TensorFlow's libraries lie.

    Args:
        environ: Of this process. Folders of NVIDIA's packages may be in it, for a TensorFlow that is not installed.
        shares: Whether its workers share a GPU, which NCCL allows from 2.30 on.
        nccl: The version of PyTorch's NCCL; where it is older, its workers get that of this Python, if it has one.
    """
    libraries = environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    kept = [folder for folder in libraries if folder and Path(folder).parent.parent.name != "nvidia"]
    found: dict[str, str | None] = {
        "PYTHONPATH": str(ROOT),
        "LD_LIBRARY_PATH": os.pathsep.join(kept) or None,
        "OMP_NUM_THREADS": "1",
    }
    if shares:
        found["NCCL_MULTI_RANK_GPU_ENABLE"] = "1"
        if nccl < _SHARES_FROM and (other := _nccl()):
            found["LD_PRELOAD"] = other
    return found


def _nccl() -> str | None:
    """NVIDIA's package of NCCL that this interpreter has; None without it."""
    spec = importlib.util.find_spec("nvidia.nccl") if importlib.util.find_spec("nvidia") else None
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    files = [Path(folder, "lib", "libnccl.so.2") for folder in folders]
    return next((str(file) for file in files if file.exists()), None)


def _cores() -> tuple[int, ...]:
    return tuple(sorted(os.sched_getaffinity(0)))


