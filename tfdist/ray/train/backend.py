"""The backend of Ray Train that forms a job of tfdist from Ray's workers."""

from __future__ import annotations

import contextlib
import logging
import random
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray.train.backend import Backend, BackendConfig

from tfdist.cluster.ports import candidate_ports
from tfdist.errors import PortTakenError, UnsupportedError, UsageError
from tfdist.launch.environment import Assignment, choose_kernels_here, enter_environment
from tfdist.launch.run_dir.run_location import create_run_location
from tfdist.launch.worker.kernel_choice import Kernels
from tfdist.launch.worker_options import WorkerOptions
from tfdist.net.port_reservation import PortReservation
from tfdist.rundir import State
from tfdist.versions import VERSION

RUN_FOLDER = "tfdist"
"""The run directory, in the folder of Ray's experiment."""

_lease = PortReservation()
"""The port of this process, which TensorFlow's server shares as long as the process lives."""


@dataclass(frozen=True)
class WorkerPlace:
    """The place of a worker.

    Attributes:
        address: Its host:port; the port is taken.
        host: Its host name.
        version: Its version of tfdist.
        kernels: By which kernels it would compute.
    """

    address: str
    host: str
    version: str
    kernels: Kernels


def take_place(kernels: Kernels) -> WorkerPlace:
    """Takes a port of this machine, and says where this worker is.

    Raises:
        PortTakenError: No port is free.
    """
    from ray.util import get_node_ip_address

    host = get_node_ip_address()
    shown = f"[{host}]" if ":" in host else host
    return WorkerPlace(f"{shown}:{_take_port()}", socket.gethostname(), VERSION, choose_kernels_here(kernels).setting)


def _take_port() -> int:
    for port in candidate_ports(random.randrange(1 << 30)):
        try:
            _lease.take(port)
        except PortTakenError:
            continue
        return port
    raise PortTakenError("This machine has no free port from 20000 to 31999. End other jobs.")


def make_run_dir(seed: int | None) -> dict[str, Any]:
    """Makes the run directory in Ray's storage, or takes that of the run that goes on; on the chief.

    Returns:
        The fields of every worker's `Assignment` that come of it.

    Raises:
        UnsupportedError: The storage is no folder.
        RunDirError: The directory cannot be made.
    """
    import ray.train

    storage = ray.train.get_context().get_storage()
    if storage.storage_filesystem.type_name != "local" and not _is_local(storage.storage_filesystem):
        raise UnsupportedError(
            "The storage of tfdist.ray.Trainer must be a folder that all nodes share, in which its workers keep their "
            f"checkpoints. Received: storage_path on {storage.storage_filesystem.type_name}. Give RunConfig a "
            "storage_path on a shared disk."
        )
    folder = Path(storage.experiment_fs_path) / RUN_FOLDER
    # A name that Ray knows is a run that goes on, after a failure as after another start.
    location = create_run_location(str(folder), name=folder.parent.name, overwrite=False, seed=seed, resume="auto")
    return {
        "run_dir": str(location.run_dir),
        "seed": location.seed,
        "attempt": location.attempt,
        "job": location.job,
    }


def _is_local(filesystem: Any) -> bool:
    """Returns whether a file system of PyArrow's wraps a local one, as Ray's own does."""
    wrapped = getattr(getattr(filesystem, "handler", None), "fs", None)
    protocol = getattr(wrapped, "protocol", ())
    return "file" in ((protocol,) if isinstance(protocol, str) else protocol)


def assign(assignment: Assignment) -> None:
    """Makes this process the worker that has the assignment."""
    log = Path(assignment.run_dir) / "logs" / f"worker-{assignment.index}.{assignment.attempt}.log"
    # Which attempts there were is told by their logs.
    log.touch()
    enter_environment(assignment)


@contextlib.contextmanager
def worker_run() -> Iterator[None]:
    """Starts this worker's session, under whose strategy the function trains; ends it with all other workers."""
    # Imported here: the driver has this function, too, and need not load TensorFlow.
    from tfdist.training.collectives_api import barrier
    from tfdist.training.run_script import adopt_strategies
    from tfdist.training.session import current_session as sessions
    from tfdist.training.supervision.error_report import report
    from tfdist.training.supervision.launcher_link import link_of
    from tfdist.training.worker import set_up_logging

    assignment = Assignment.from_environ()
    assert assignment is not None, "the backend assigns a place to each worker"
    link = link_of(assignment)
    set_up_logging(assignment)
    # Ray lets its messages through, of which there is one for each strategy and collective.
    logging.getLogger("tensorflow").setLevel(logging.WARNING)
    try:
        with contextlib.nullcontext() if link.ledger is None else contextlib.closing(link.ledger):
            session = sessions.start(assignment, sessions.requested_devices(assignment))
            adopt_strategies(session)
            yield
            # A worker that leaves early takes the others down.
            barrier()
        link.heartbeat.finish(State.FINISHED)
    except BaseException as error:
        report(error, assignment)
        raise


@dataclass
class TfdistBackendConfig(BackendConfig):
    """Has the workers of a trainer train with tfdist.

    Attributes:
        options: Of all workers.
        seed: The run's; None to draw one.
        name: What the training function is called.
    """

    options: WorkerOptions = field(default_factory=WorkerOptions)
    seed: int | None = None
    name: str = "train"

    @property
    def backend_cls(self) -> type[Backend]:
        return TfdistBackend

    @property
    def train_func_context(self) -> Callable[[], AbstractContextManager[None]]:
        return worker_run


class TfdistBackend(Backend):
    """Gives Ray's workers their places in a job of tfdist, at the start and after each restart."""

    def on_training_start(self, worker_group: Any, backend_config: TfdistBackendConfig) -> None:
        """Forms the job, before the training function runs."""
        options = backend_config.options
        places: list[WorkerPlace] = worker_group.execute(take_place, options.kernels)
        _check_versions(places)
        common = worker_group.execute_single(0, make_run_dir, backend_config.seed)
        # Every worker computes by the kernels of the chief's node.
        common |= {**options.worker_options(), "kernels": places[0].kernels}
        found = assignments(places, backend_config.name, common)
        ray.get([worker_group.execute_single_async(each.index, assign, each) for each in found])


def assignments(places: Sequence[WorkerPlace], name: str, common: dict[str, Any]) -> list[Assignment]:
    """Returns what each worker is told.

    Args:
        places: Of the workers, in the order of their ranks.
        common: Fields of every worker's.
    """
    hosts = [place.address.rpartition(":")[0] for place in places]
    sizes, seen = Counter(hosts), Counter[str]()
    cluster = ",".join(place.address for place in places) if len(places) > 1 else None
    found = []
    for index, (place, host) in enumerate(zip(places, hosts, strict=True)):
        found.append(
            Assignment(
                index=index,
                num_workers=len(places),
                target_kind="module",
                target=name,
                local_rank=seen[host],
                local_size=sizes[host],
                # Ray shows each worker the GPUs that it has given to it.
                own_gpus=True,
                address=place.address if cluster else None,
                cluster=cluster,
                **common,
            )
        )
        seen[host] += 1
    return found


def _check_versions(places: Sequence[WorkerPlace]) -> None:
    for place in places[1:]:
        if place.version != places[0].version:
            raise UsageError(
                f"{place.host} has tfdist {place.version}, and {places[0].host} has {places[0].version}. Expected the "
                "same version on every node."
            )
