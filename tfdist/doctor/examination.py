"""Examination by `tfdist doctor`: all that is checked on this machine, and with a worker list its connections."""

from __future__ import annotations

import functools
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tfdist.cluster.discover import discover
from tfdist.cluster.environment_variables import run_variables
from tfdist.cluster.membership import Membership
from tfdist.doctor.check_result import Check
from tfdist.doctor.doctor_report import DoctorReport
from tfdist.doctor.machine import machine_facts
from tfdist.doctor.machine.kernel_speeds import check_kernels, measure_kernels
from tfdist.doctor.machine.machine_checks import (
    check_cluster,
    check_machine,
    check_run,
    check_tensorflow,
    check_variables,
)
from tfdist.doctor.machine.machine_facts import MachineFacts, this_machine
from tfdist.doctor.machine.package_versions import check_versions, installed
from tfdist.doctor.machine.tensorflow_facts import BrokenTensorFlow, ProbeRequest, TensorFlowFacts, probe
from tfdist.doctor.mesh.link_measurement import Clocks
from tfdist.doctor.mesh.mesh import check_connections
from tfdist.errors import ClusterError
from tfdist.launch.environment import choose_kernels_here, count_gpus_here
from tfdist.launch.gpus.usable_gpus import MOST_SECONDS
from tfdist.launch.gpus.worker_choice import choose_workers

_DRIVER_SHARE = 0.5
"""Of the whole time, what NVIDIA's driver may take."""

_LEAST_LOCAL_SECONDS = 0.1
_MOST_MEASURING_SECONDS = 30.0
CLOCKS = Clocks(time.monotonic, time.time)
_IMPORT_SHARE = 0.5
"""Of the whole time, what asking TensorFlow may take when connections come after it."""
_LEAST_SECONDS = 1.0


@dataclass(frozen=True)
class LocalFacts:
    """The facts that were found on this machine.

    Attributes:
        versions: The version of every installed distribution.
        variables: The environment variables that affect a run.
        nvidia: What NVIDIA's driver reports.
        tensorflow: What TensorFlow finds, and what a worker here would use.
        machine: Cores, memory, limits.
    """

    versions: Mapping[str, str]
    variables: Mapping[str, str]
    nvidia: machine_facts.NvidiaDriver
    tensorflow: TensorFlowFacts | BrokenTensorFlow
    machine: MachineFacts


def local_facts(
    membership: Membership | None, seconds: float, clock: Callable[[], float] = time.monotonic
) -> LocalFacts:
    """Asks this machine.

    Args:
        membership: Who takes part; None for one worker alone.
        seconds: How long the queries of NVIDIA's driver and TensorFlow may take together.
    """
    deadline = clock() + seconds
    variables = run_variables()
    gpus = machine_facts.ask(seconds=min(machine_facts.MOST_SECONDS, seconds * _DRIVER_SHARE))
    found = probe(_request(membership, max(round(deadline - clock(), 1), _LEAST_LOCAL_SECONDS)))
    return LocalFacts(installed(), variables, gpus, found, this_machine())


def check_facts(facts: LocalFacts, workers: int) -> list[Check]:
    """Judges what was found.

    Args:
        workers: How many workers a run would start here.
    """
    return [
        *check_versions(facts.versions),
        *check_variables(facts.variables),
        *check_tensorflow(facts.tensorflow, facts.nvidia),
        *check_machine(facts.machine, facts.nvidia, workers, facts.variables),
    ]


def check_here(
    membership: Membership | None, seconds: float, clock: Callable[[], float] = time.monotonic
) -> list[Check]:
    """Checks this machine.

    Args:
        membership: Who takes part, as the command line says; None to look in the environment as `tfdist train` does.
        seconds: How long the queries of NVIDIA's driver and TensorFlow may take together.
    """
    begin = clock()
    try:
        taking_part: Membership | ClusterError = membership or discover()
    except ClusterError as error:
        taking_part = error
    known = None if isinstance(taking_part, ClusterError) else taking_part
    if known is not None:
        share = min(MOST_SECONDS, seconds * _DRIVER_SHARE)
        chosen = choose_workers(functools.partial(count_gpus_here, seconds=share), membership=known)
        known = chosen.membership(known)
    facts = local_facts(known, max(seconds - (clock() - begin), 0.0), clock)
    return [
        *check_facts(facts, len(known.machine) if known else 1),
        _check_kernels(facts, None if membership else begin + seconds - clock()),
        check_cluster(taking_part),
        *check_run(facts.tensorflow, known),
    ]


def _check_kernels(facts: LocalFacts, seconds: float | None) -> Check:
    """By which kernels a run here computes on the CPU; they are measured where nobody waits for it (`seconds`)."""
    choice = choose_kernels_here()
    if choice.kernels is None or seconds is None or isinstance(facts.tensorflow, BrokenTensorFlow):
        return check_kernels(choice, None)
    return check_kernels(choice, measure_kernels(min(max(seconds, _LEAST_LOCAL_SECONDS), _MOST_MEASURING_SECONDS)))


def _request(membership: Membership | None, seconds: float) -> ProbeRequest:
    if membership is None:
        return ProbeRequest(1, 0, 1, seconds)
    rank = membership.machine.index(membership.local[0])
    return ProbeRequest(membership.num_workers, rank, len(membership.machine), seconds)


@dataclass(frozen=True)
class Doctor:
    """One examination.

    Attributes:
        workers: The whole cluster as host:port, comma-separated; None to check this machine alone.
        index: Which entry is this machine's; None for every entry that is an address of it.
        seconds: How long all of it may take.
    """

    workers: str | None = None
    index: int | None = None
    seconds: float = 60.0

    def examine(self, tell: Callable[[str], None]) -> DoctorReport:
        """Runs the checks.

        Raises:
            ClusterError: The list or the index cannot be used.
        """
        deadline = CLOCKS.steady() + self.seconds
        if self.workers is None and self.index is None:
            return DoctorReport(socket.gethostname(), tuple(check_here(None, self.seconds)))
        membership = discover(self.workers, self.index)
        checks = check_here(membership, self.seconds * _IMPORT_SHARE)
        left = max(deadline - CLOCKS.steady(), _LEAST_SECONDS)
        found = check_connections(membership, left, CLOCKS, tell)
        workers = () if membership.cluster is None else tuple(map(str, membership.cluster.workers))
        return DoctorReport(socket.gethostname(), (*checks, *found.checks), workers, found.pairs)
