"""What each worker process of Ray Train does before its training function; called in it by the backend."""

from __future__ import annotations

import random
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfdist.cluster.ports import candidate_ports
from tfdist.errors import PortTakenError, UnsupportedError
from tfdist.launch.environment import Assignment, choose_kernels_here, enter_environment
from tfdist.launch.run_dir.run_location import create_run_location
from tfdist.launch.worker.kernel_choice import Kernels
from tfdist.net.port_lease import PortLease
from tfdist.versions import VERSION

RUN_FOLDER = "tfdist"
"""The run directory, in the folder of Ray's experiment."""

_lease = PortLease()
"""The port of this process, which TensorFlow's server shares as long as the process lives."""


@dataclass(frozen=True)
class WorkerPlace:
    """Where a worker is.

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
    """Whether a file system of PyArrow's wraps a local one, as Ray's own does."""
    wrapped = getattr(getattr(filesystem, "handler", None), "fs", None)
    protocol = getattr(wrapped, "protocol", ())
    return "file" in ((protocol,) if isinstance(protocol, str) else protocol)


def assign(assignment: Assignment) -> None:
    """Makes this process the worker that has the assignment."""
    log = Path(assignment.run_dir) / "logs" / f"worker-{assignment.index}.{assignment.attempt}.log"
    # Which attempts there were is told by their logs.
    log.touch()
    enter_environment(assignment)
