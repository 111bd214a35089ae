"""Environment of a worker process, which carries all that it must know; the only module of launch/ that reads one."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tfdist import bounded_json
from tfdist.cluster.cluster_spec import Cluster
from tfdist.cluster.tf_config import tf_config_json
from tfdist.errors import UsageError
from tfdist.launch.gpus import usable_gpus
from tfdist.launch.gpus.usable_gpus import MOST_SECONDS, GpuCount, count_gpus
from tfdist.launch.worker.core_binding import CoreBinding, choose_binding, own_cores, usable_nodes
from tfdist.launch.worker.kernel_choice import (
    KernelChoice,
    Kernels,
    choose_kernels,
    computes_on_gpus,
    kernel_settings,
    this_processor,
)
from tfdist.launch.worker.worker_variables import (
    allocator_settings,
    check_objections,
    keras_settings,
    nccl_settings,
    proxy_settings,
)
from tfdist.launch.worker_options import WorkerOptions
from tfdist.launch.worker_requests import RecordingRequest, RehearsalRequest, TraceRequest
from tfdist.net import shared_token
from tfdist.text import format_count

VARIABLE = "TFDIST_WORKER"
_REFUSES_BREAKPOINTS = "tfdist.training.refused_breakpoint.refuse"

TargetKind = Literal["config", "script", "module", "inference"]
_TYPES_IN_TEXTS = {
    **dict.fromkeys(("str", "str | None", "tuple[str, ...]"), str),
    **dict.fromkeys(("int", "int | None", "tuple[int, ...]", "tuple[int, ...] | None"), int),
    "bool": bool,
}
"""Annotation of a field -> the type of its value, or of each of its values."""
_TUPLES = ("args", "devices", "linked", "host_workers", "feed_sockets")


def read_token(environ: Mapping[str, str] | None = None) -> shared_token.Token | None:
    """The secret that the launchers of the job share, from `environ` (default: this process's); None without one.

    Raises:
        UsageError: The variable is set and empty.
    """
    secret = (os.environ if environ is None else environ).get(shared_token.VARIABLE)
    return None if secret is None else shared_token.Token(secret)


def read_gpu_emulation(environ: Mapping[str, str] | None = None) -> usable_gpus.GpuEmulation:
    """Returns what of GPUs `environ` (default: this process's) asks to emulate on CPUs.

    Raises:
        UsageError: The variable names something else.
    """
    source = os.environ if environ is None else environ
    return usable_gpus.GpuEmulation.parse(source.get(usable_gpus.EMULATION_VARIABLE, ""))


def count_gpus_here(environ: Mapping[str, str] | None = None, seconds: float = MOST_SECONDS) -> GpuCount:
    """Returns how many GPUs workers find that are started on this machine.

    Raises:
        UsageError: The variable that emulates GPUs is not understood.
    """
    source = os.environ if environ is None else environ
    emulated = read_gpu_emulation(source).count
    return count_gpus(source, seconds=seconds) if emulated is None else GpuCount(emulated)


def check_environment(environ: Mapping[str, str] | None = None) -> None:
    """Checks `environ` (default: this process's) for variables with which a training would be wrong.

    Raises:
        UsageError: There is one, such as another Keras than Keras 3 on TensorFlow.
    """
    check_objections(os.environ if environ is None else environ)


def choose_kernels_here(asked: Kernels = "auto", environ: Mapping[str, str] | None = None) -> KernelChoice:
    """The kernels of workers that are started on this machine with `environ` (default: this process's)."""
    source = os.environ if environ is None else environ
    return choose_kernels(asked, source, this_processor(), has_gpu=computes_on_gpus(source))


def choose_cores_here(size: int, local: int, environ: Mapping[str, str] | None = None) -> list[CoreBinding | None]:
    """The cores of each of `size` workers of this machine, by their places; None for one that may run on all.

    Workers that compute on GPUs are not bound: what they need to be near to is their GPU.

    Args:
        size: Workers of this machine.
        local: Those of them that this process starts.
    """
    if size < 2 or computes_on_gpus(os.environ if environ is None else environ):
        return [None] * size
    own = own_cores(frozenset(os.sched_getaffinity(0)), os.cpu_count() or 1, local, size)
    if own is not None:
        return [own] * size
    nodes = usable_nodes()
    return [choose_binding(rank, size, nodes) for rank in range(size)]


def crowding(local: int, environ: Mapping[str, str] | None = None) -> str:
    """Returns what is to be said of `local` workers that compute on fewer cores than they are; empty for others."""
    cores = len(os.sched_getaffinity(0))
    if local <= cores or local < 2 or computes_on_gpus(os.environ if environ is None else environ):
        return ""
    return f"{local} workers share {format_count(cores, 'core')}: more workers than cores make a training slower"


def is_dumb_terminal(environ: Mapping[str, str] | None = None) -> bool:
    """Returns whether `environ` (default: this process's) says that the terminal cannot move its cursor."""
    return (os.environ if environ is None else environ).get("TERM", "dumb") in ("", "dumb", "unknown")


def variables_added(variables: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with some variables besides, for the workers of a job."""
    return {**os.environ, **variables}


def enter_environment(assignment: Assignment) -> None:
    """Makes this process's environment that of a worker, where somebody else than a launcher has started it.

    Before TensorFlow is imported. What only counts at the start of a process comes too late.
    """
    environ = assignment.to_environ()
    for name in os.environ.keys() - environ.keys():
        del os.environ[name]
    os.environ.update(environ)


@dataclass(frozen=True)
class Assignment(WorkerOptions):
    """Everything that a launcher tells one worker process. What is the same for all workers is in `WorkerOptions`.

    Attributes:
        run_dir: Absolute path of the run directory on this machine.
        seed: The run's random seed, the same for every worker; not negative.
        index: This worker's place in the cluster; 0 is the chief.
        num_workers: Workers of the whole cluster.
        target_kind: What `target` is: a YAML config, a Python script, a module's dotted name, or a model whose
            inference `args` describe.
        target: Path or dotted name of what to run.
        local_rank: This worker's place among the workers of this machine.
        local_size: Workers of this machine: they share its devices and cores.
        own_gpus: Whether all GPUs that it sees are its own; else the workers of this machine share those that they see.
        binding: The cores that it may run on; None for all that its launcher may.
        attempt: Starts of the group before this one.
        job: Different for every job, and the same in all of its attempts.
        is_elastic: Whether another start of the run may be under way, which this one cannot know of.
        address: This worker's host:port; None when there is one worker.
        cluster: Every worker's host:port, comma-separated; None when there is one worker.
        config_fd: File descriptor of the config (`config_handover`); None for a script or module.
        channel_fd: File descriptor of the socket to the launcher (`LauncherChannel`).
        linked: The indices of the workers of this host that are linked, ascending.
        links: File descriptors of each set of links to these (`LinkEnds`).
        host_workers: The indices of the workers of this host that may share what one of them draws; none where each
            draws for itself. The first one draws.
        feed_sockets: File descriptors of its sockets for that (`HostStar`).
        generated_code_dir: Folder for the Python files that TensorFlow generates; None for TensorFlow's choice.

    Raises:
        UsageError: A value is out of its range, or not one that its option takes.
    """

    run_dir: str
    seed: int
    index: int
    num_workers: int
    target_kind: TargetKind
    target: str
    local_rank: int = 0
    local_size: int = 1
    own_gpus: bool = False
    binding: CoreBinding | None = None
    attempt: int = 0
    job: str = ""
    is_elastic: bool = False
    address: str | None = None
    cluster: str | None = None
    config_fd: int | None = None
    channel_fd: int | None = None
    linked: tuple[int, ...] = ()
    links: tuple[tuple[int, ...], ...] = ()
    host_workers: tuple[int, ...] = ()
    feed_sockets: tuple[int, ...] = ()
    generated_code_dir: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.index < self.num_workers:
            raise UsageError(f"A worker's index must be 0 to {self.num_workers - 1}. Received: index={self.index}")
        if not 0 <= self.local_rank < self.local_size <= self.num_workers:
            raise UsageError(
                f"local_rank must be below local_size, and that at most {self.num_workers}. "
                f"Received: local_rank={self.local_rank}, local_size={self.local_size}"
            )
        if self.seed < 0:
            raise UsageError(f"A seed must not be negative. Received: seed={self.seed}")
        if self.target_kind not in get_args(TargetKind):
            raise UsageError(f"target_kind must be one of {get_args(TargetKind)}. Received: {self.target_kind!r}")
        if (self.num_workers > 1) != (self.cluster is not None):
            raise UsageError(
                "Several workers need a cluster and one worker has none. "
                f"Received: num_workers={self.num_workers}, cluster={self.cluster!r}"
            )

    @property
    def reads_input(self) -> bool:
        """True if the worker has the standard input of its launcher."""
        return self.index == self.debug_worker

    @property
    def inherited_fds(self) -> tuple[int, ...]:
        """File descriptors of the launcher's that the worker is to have, besides its channel."""
        config = () if self.config_fd is None else (self.config_fd,)
        return (*config, *itertools.chain(*self.links), *self.feed_sockets)

    def check_types(self) -> None:
        """Checks the types that a variable may have otherwise.

        Raises:
            TypeError: A value has another one.
        """
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            # Annotations are texts here, such as `int | None` and `tuple[str, ...]`.
            expected = _TYPES_IN_TEXTS.get(str(field.type))
            if expected is None or (value is None and "None" in str(field.type)):
                continue
            values = value if isinstance(value, tuple) else (value,)
            if not all(isinstance(each, expected) for each in values):
                raise TypeError(f"expected {field.type} for {field.name}")
        cores = self.binding.cores if self.binding else ()
        if not all(isinstance(number, int) for number in itertools.chain(cores, *self.links)):
            raise TypeError("expected whole numbers for file descriptors and cores")

    def to_environ(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """The worker's environment: `base` (default: this process's) with what the worker must know.

        A TF_CONFIG in `base` is replaced, or removed when there is one worker, and the launchers' secret is removed;
        what the user set otherwise stands.
        """
        environ = dict(os.environ if base is None else base)
        environ[VARIABLE] = json.dumps(dataclasses.asdict(self))
        # Workers do not talk to other hosts' launchers, and scripts print their environment.
        environ.pop(shared_token.VARIABLE, None)
        environ.pop("TF_CONFIG", None)
        if self.cluster is not None:
            cluster = Cluster.parse(self.cluster)
            environ["TF_CONFIG"] = tf_config_json(cluster, self.index)
            environ.update(proxy_settings(environ, cluster))
            # The launcher keeps the port bound while the worker runs (`net.port_reservation`).
            environ["TF_GRPC_REUSE_PORT"] = "true"
        environ["PYTHONUNBUFFERED"] = "1"
        if self.num_workers > 1 and self.index != self.debug_worker:
            # Python's own variable. There is no input for a debugger here: who debugs another worker passes by.
            environ.setdefault("PYTHONBREAKPOINT", _REFUSES_BREAKPOINTS if self.debug_worker is None else "0")
        # For scripts that save and resume by themselves.
        environ["TFDIST_RUN_DIR"] = self.run_dir
        environ["TFDIST_ATTEMPT"] = str(self.attempt)
        # Python's hash() orders sets: where that decides what is built first, workers must agree.
        environ.setdefault("PYTHONHASHSEED", str(self.seed % 2**32))
        environ.update(keras_settings(environ))
        environ.update(allocator_settings(environ))
        environ.update(kernel_settings(self.kernels))
        environ.update(nccl_settings(environ, share_gpu=self.share_gpu))
        return environ

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> Assignment | None:
        """The assignment that a launcher wrote into `environ` (default: this process's); None outside `tfdist train`.

        Raises:
            UsageError: The variable is there and is not what this version of tfdist writes.
        """
        text = (os.environ if environ is None else environ).get(VARIABLE)
        if not text:
            return None
        try:
            fields: dict[str, Any] = bounded_json.parse(text)
            for name in _TUPLES:
                if fields.get(name) is not None:
                    fields[name] = tuple(fields[name])
            fields["binding"] = _binding_of(fields.get("binding"))
            fields["links"] = tuple(map(tuple, fields.get("links", ())))
            fields["recording"] = RecordingRequest.of(fields.get("recording"))
            fields["trace"] = TraceRequest.of(fields.get("trace"))
            fields["rehearsal"] = RehearsalRequest.of(fields.get("rehearsal"))
            assignment = cls(**fields)
            assignment.check_types()
            return assignment
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise UsageError(
                f"The environment variable {VARIABLE} must be what this version of `tfdist train` writes for its "
                f"workers ({error}). Received: {text[:200]!r}\nUnset it to run without a launcher."
            ) from None


def _binding_of(fields: Any) -> CoreBinding | None:
    """The binding that JSON has as an object. Raises `TypeError` for something else."""
    return None if fields is None else CoreBinding(**{**fields, "cores": tuple(fields.get("cores"))})
