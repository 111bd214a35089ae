"""Who takes part: for each contestant, the processes that it starts to train one model on some workers.

A name may end with `+onednn` or `+eigen`: the same with TensorFlow's kernels on the CPU chosen, instead of those that
it would start with.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.comparison.host_facts import ONEDNN
from benchmarks.comparison.process_group import Command
from benchmarks.comparison.torch_python import TorchPython
from benchmarks.workers.loop_spec import LoopSpec
from tfdist.cluster.discover import discover
from tfdist.cluster.tf_config import tf_config_json
from tfdist.launch.worker import worker_variables
from tfdist.net.port_reservation import PortReservation, reserve_ports

KERNELS = {"onednn": "1", "eigen": "0"}

ABOUT = {
    "tfdist": "Keras `fit` under `tfdist train`",
    "ddp": "PyTorch's DistributedDataParallel over gloo",
    "tensorflow": "a hand-written TensorFlow loop under MultiWorkerMirroredStrategy",
    "apart": "TensorFlow workers that do not communicate, each with its share of the batch and the memory settings of "
    "tfdist's workers; the slowest of them counts",
    "in-step": "as apart, each waiting for the others after every step: the most that training in step reaches",
}
"""What can take part, by name."""


@dataclass(frozen=True)
class Task:
    """What all contestants do in one cell of the table.

    Attributes:
        model: A name of `model_sizes.SIZES`.
        workers: How many workers train it together.
        steps: Steps that are timed.
        batch: Samples of a global batch.
        cores: The cores of the machine to use; worker I runs on the I-th, from the start again where there are fewer.
        seconds: How long each contestant may take.
        torch: The interpreter with PyTorch; None without one.
        train_options: Options for `tfdist train`.
    """

    model: str
    workers: int
    steps: int
    batch: int
    cores: tuple[int, ...]
    seconds: float
    torch: TorchPython | None = None
    train_options: tuple[str, ...] = ()

    @property
    def used_cores(self) -> tuple[int, ...]:
        """The cores that workers run on."""
        return self.cores[: self.workers]

    def core(self, index: int) -> int:
        """The core of one worker."""
        return self.cores[index % len(self.cores)]


@dataclass(frozen=True)
class Contestant:
    """One that takes part.

    Attributes:
        name: `tfdist`, or `tensorflow+onednn`.

    Raises:
        ValueError: There is none of that name.
    """

    name: str

    def __post_init__(self) -> None:
        kind, plus, kernels = self.name.partition("+")
        if kind not in ABOUT or (plus and (kernels not in KERNELS or kind == "ddp")):
            raise ValueError(
                f"expected {', '.join(ABOUT)}, those of TensorFlow also with +{' or +'.join(KERNELS)}. "
                f"Received: {self.name!r}"
            )

    @property
    def kind(self) -> str:
        """The name without its kernels."""
        return self.name.partition("+")[0]

    @property
    def onednn(self) -> bool | None:
        """Whether its kernels are to be oneDNN's; None where it is not asked for any."""
        chosen = self.name.partition("+")[2]
        return KERNELS[chosen] == "1" if chosen else None

    @property
    def kernels(self) -> dict[str, str]:
        """The variable that chooses its kernels."""
        chosen = self.name.partition("+")[2]
        return {ONEDNN: KERNELS[chosen]} if chosen else {}

    def processes(self, task: Task, folder: Path) -> AbstractContextManager[list[Command]]:
        """The processes to start, and what they need while they run.

        Args:
            task: What they do.
            folder: An empty folder for them.
        """
        return _PROCESSES[self.kind](task, folder, self.kernels)


@contextlib.contextmanager
def _tfdist(task: Task, folder: Path, kernels: Mapping[str, str]) -> Iterator[list[Command]]:
    cores = task.used_cores
    launcher = ("-m", "tfdist", "train", "--nproc", str(task.workers), "--run-dir", str(folder / "run"))
    target = ("-m", "benchmarks.fit", task.model, str(task.steps), "--cores", ",".join(map(str, cores)))
    yield [Command((sys.executable, *launcher, *task.train_options, *target), cores, kernels)]


@contextlib.contextmanager
def _ddp(task: Task, folder: Path, kernels: Mapping[str, str]) -> Iterator[list[Command]]:
    assert task.torch is not None
    # Like torchrun, which sets it for its workers.
    environment = {"OMP_NUM_THREADS": "1"}
    yield _loops(task, folder, (task.torch.path, "-m", "benchmarks.workers.torch_loop"), lambda _: environment)


@contextlib.contextmanager
def _tensorflow(task: Task, folder: Path, kernels: Mapping[str, str]) -> Iterator[list[Command]]:
    program = (sys.executable, "-m", "benchmarks.workers.tensorflow_loop")
    with cluster_variables(task.workers) as variables:
        yield _loops(task, folder, program, lambda index: {**_QUIET, **variables(index), **kernels})


@contextlib.contextmanager
def _apart(
    task: Task, folder: Path, kernels: Mapping[str, str], *, in_step: bool = False
) -> Iterator[list[Command]]:
    program = (sys.executable, "-m", "benchmarks.workers.tensorflow_loop")
    memory = worker_variables.allocator_settings({})
    yield _loops(task, folder, program, lambda _: {**_QUIET, **memory, **kernels}, apart=True, in_step=in_step)


@contextlib.contextmanager
def cluster_variables(workers: int) -> Iterator[Callable[[int], dict[str, str | None]]]:
    """The variables of each worker of a TensorFlow cluster on this machine, whose ports are held meanwhile."""
    with PortReservation() as reservation:
        cluster = reserve_ports(discover(nproc=workers, environ={}), reservation).cluster
        if cluster is None:
            yield lambda index: {"TF_CONFIG": None}
        else:
            yield lambda index: {"TF_CONFIG": tf_config_json(cluster, index), "TF_GRPC_REUSE_PORT": "true"}


def _loops(
    task: Task,
    folder: Path,
    program: tuple[str, ...],
    environment: Callable[[int], Mapping[str, str | None]],
    apart: bool = False,
    in_step: bool = False,
) -> list[Command]:
    commands = []
    for index in range(task.workers):
        sizes = (task.model, task.workers, index, task.steps, task.batch, task.seconds)
        spec = LoopSpec(*sizes, str(folder), apart, in_step)
        commands.append(Command((*program, spec.argument()), (task.core(index),), environment(index)))
    return commands


_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "KERAS_BACKEND": "tensorflow"}
_PROCESSES: dict[str, Callable[[Task, Path, Mapping[str, str]], AbstractContextManager[list[Command]]]] = {
    "tfdist": _tfdist,
    "ddp": _ddp,
    "tensorflow": _tensorflow,
    "apart": _apart,
    "in-step": functools.partial(_apart, in_step=True),
}
