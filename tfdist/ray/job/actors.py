"""The actors of a job: one on each machine, and the GPUs that Ray gives to the workers there."""

from __future__ import annotations

import os
import queue
import random
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from tfdist.cluster.ports import candidate_ports
from tfdist.errors import PortTakenError, UsageError
from tfdist.launch.environment import variables_added
from tfdist.net.port_reservation import PortReservation
from tfdist.ray.job.driving import answers
from tfdist.ray.job.placement import Demand, NodeWorkers
from tfdist.versions import VERSION

EVENT_SECONDS = 2.0
"""Seconds that `events` waits for something to happen."""

_BLOCK = 1 << 16
_WAITING_BLOCKS = 64
"""Blocks of output that wait for the driver; a launcher that writes more waits, too."""


@dataclass(frozen=True)
class Events:
    """The events since the last call.

    Attributes:
        output: What the launcher wrote, as (1 for stdout or 2 for stderr, bytes).
        code: Its exit code, once it has ended and all of its output is told; None before.
    """

    output: tuple[tuple[int, bytes], ...] = ()
    code: int | None = None


class NodeActor:
    """Runs one launcher; its methods are called by several threads."""

    def __init__(self) -> None:
        self._lease = PortReservation()
        self._process: subprocess.Popen[bytes] | None = None
        self._output: queue.Queue[tuple[int, bytes] | None] = queue.Queue(_WAITING_BLOCKS)
        self._open = 2
        self._lock = threading.Lock()

    def version(self) -> str:
        """The version of tfdist on this node."""
        return VERSION

    def gpus(self) -> list[str]:
        """The GPUs that Ray has given to this actor."""
        import ray

        return [str(gpu) for gpu in ray.get_runtime_context().get_accelerator_ids()["GPU"]]

    def lease(self, count: int) -> list[int]:
        """Chooses free ports for workers, and holds them until the launcher takes them.

        Raises:
            PortTakenError: There are too few.
        """
        taken: list[int] = []
        for port in candidate_ports(random.randrange(1 << 30)):
            if len(taken) == count:
                return taken
            try:
                self._lease.take(port)
            except PortTakenError:
                continue
            taken.append(port)
        raise PortTakenError(f"This machine has {len(taken)} free port(s) from 20000 to 31999; {count} are needed.")

    def start(self, module: str, arguments: list[str], variables: Mapping[str, str], directory: str | None) -> None:
        """Starts the launcher: `python -m MODULE ARGUMENTS`.

        Args:
            module: A launcher that ends with its stdin.
            arguments: Those of `tfdist`.
            variables: Added to this node's environment.
            directory: Where it works; None for where this actor does.

        Raises:
            UsageError: There is no such directory here.
        """
        if directory is not None and not os.path.isdir(directory):
            raise UsageError(
                f"There is no directory {directory} on this node. Expected the working directory of the command on "
                "every node: share it, or give another one with --cwd."
            )
        self._lease.close()
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=directory,
            env=variables_added(variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ray signals the processes that it has started.
            start_new_session=True,
        )
        for number, pipe in ((1, self._process.stdout), (2, self._process.stderr)):
            threading.Thread(target=self._read, args=(number, cast(BinaryIO, pipe)), daemon=True).start()

    def events(self) -> Events:
        """Returns what has happened, once something has, or after `EVENT_SECONDS`."""
        assert self._process is not None, "events are those of a launcher that was started"
        found: list[tuple[int, bytes]] = []
        try:
            block = self._output.get(timeout=EVENT_SECONDS)
            while True:
                if block is None:
                    self._open -= 1
                else:
                    found.append(block)
                block = self._output.get_nowait()
        except queue.Empty:
            pass
        # A process that a worker has left behind may hold a pipe open: an ended launcher has nothing more to say.
        is_over = self._process.poll() is not None and (self._open == 0 or not found)
        return Events(tuple(found), self._process.wait() if is_over else None)

    def signal(self, number: int) -> None:
        """Sends the launcher a signal, if it is there."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(number)

    def _read(self, number: int, pipe: BinaryIO) -> None:
        while block := os.read(pipe.fileno(), _BLOCK):
            self._output.put((number, block))
        self._output.put(None)


_VISIBLE = "CUDA_VISIBLE_DEVICES"
_THREADS = 4
"""Of an actor: a signal must not wait for `events`."""


def make_actors(ray: Any, group: Any, layout: Sequence[NodeWorkers], demand: Demand) -> dict[NodeWorkers, Any]:
    """An actor for each machine, in the bundle of its first worker."""
    return {machine: _make(ray, group, machine.bundles[0], demand) for machine in layout}


def gpu_variables(
    ray: Any, group: Any, actors: Mapping[NodeWorkers, Any], demand: Demand
) -> dict[NodeWorkers, dict[str, str]]:
    """Returns what shows each machine's launcher the GPUs of all of its workers, in their order; nothing without GPUs.

    A bundle has its GPUs as long as there is its placement group, so those that ask for them need not stay.

    Raises:
        TfdistError: An actor does not answer.
    """
    if not demand.gpus:
        return {machine: {} for machine in actors}
    asked = {
        machine: [actor, *(_make(ray, group, bundle, demand) for bundle in machine.bundles[1:])]
        for machine, actor in actors.items()
    }
    found = {}
    for machine, each in asked.items():
        lists = answers(ray, [actor.gpus.remote() for actor in each], [machine] * len(each))
        found[machine] = {_VISIBLE: ",".join(gpu for gpus in lists for gpu in gpus)}
        for helper in each[1:]:
            ray.kill(helper)
    return found


def _make(ray: Any, group: Any, bundle: int, demand: Demand) -> Any:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    there = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle)
    options = {"num_cpus": demand.cpus, "num_gpus": demand.gpus, "max_concurrency": _THREADS}
    return ray.remote(**options, scheduling_strategy=there)(NodeActor).remote()
