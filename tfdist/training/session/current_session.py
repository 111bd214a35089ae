"""The one session of this process: started by `start`, or by the first call of `current`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import TypeVar

from tfdist.cluster.discover import discover
from tfdist.launch.environment import Assignment, read_gpu_emulation
from tfdist.runtime.devices import DeviceRequest
from tfdist.training.session.session import LaunchedSession, Session
from tfdist.training.session.session_setup import set_up, set_up_launched
from tfdist.training.session.worker_context import WorkerContext, context_of
from tfdist.training.supervision.launcher_link import call_on_signal

_S = TypeVar("_S", bound=Session)


class _Process:
    """Holds the session of the process, as TensorFlow has one set of devices and one global strategy a process."""

    def __init__(self) -> None:
        self.session: Session | None = None
        # Reentrant, so that a second start from within the first raises instead of waiting for ever.
        self.lock = threading.RLock()
        self.is_starting = False


_process = _Process()


def current() -> Session:
    """This process's session, started by the first call if nothing has started it before.

    Under `tfdist train` the launcher's assignment decides; otherwise TF_CONFIG or a scheduler does, or there is one
    worker with every device.

    Raises:
        UsageError: What was asked for does not fit this machine.
    """
    with _process.lock:
        if _process.session is not None:
            return _process.session
        assignment = Assignment.from_environ()
        if assignment is not None:
            return start(assignment, requested_devices(assignment))
        membership = discover()
        context = WorkerContext(membership.local[0], membership.cluster)
        return _start(lambda: set_up(context, DeviceRequest()))


def start(assignment: Assignment, request: DeviceRequest) -> LaunchedSession:
    """Starts the session of a worker that `tfdist train` started, before TensorFlow touches a device.

    From then on `current` returns it.

    Raises:
        RuntimeError: This process has a session, or is starting one.
        UsageError: What was asked for does not fit this machine.
    """
    context = context_of(assignment)
    session = _start(lambda: set_up_launched(context, request))
    channel = context.link.channel
    if channel is not None:
        # Not before: TensorFlow installs a SIGTERM handler of its own when the cluster forms.
        call_on_signal(signal.SIGTERM, channel.signalled)
    return session


def _start(make: Callable[[], _S]) -> _S:
    with _process.lock:
        if _process.session is not None or _process.is_starting:
            raise RuntimeError(
                "This process has a session already, and TensorFlow has one set of devices and one strategy a process. "
                "Expected one start. Use tfdist.training.session.current_session.current()."
            )
        _process.is_starting = True
        try:
            session = make()
        finally:
            _process.is_starting = False
        _process.session = session
        return session


def requested_devices(assignment: Assignment) -> DeviceRequest:
    """The devices that the command line asks for, and this worker's place on its machine."""
    binding = assignment.binding
    return DeviceRequest(
        gpus=assignment.devices,
        logical=assignment.logical_devices,
        memory_limit=assignment.memory_limit,
        local_rank=assignment.local_rank,
        local_size=assignment.local_size,
        own_gpus=assignment.own_gpus,
        share_gpu=assignment.share_gpu,
        emulated=read_gpu_emulation().count,
        worker_per_gpu=assignment.worker_per_gpu,
        # A worker that the system did not bind shares all cores with all workers of the machine.
        sharing=binding.workers if binding is not None and binding.is_kept else None,
    )
