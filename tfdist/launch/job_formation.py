"""Forms a job: its launchers meet and agree, the chief's makes the run directory, and the others join it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfdist.cluster.membership import Membership
from tfdist.errors import TfdistError
from tfdist.launch.agent.exit_diagnosis import from_start
from tfdist.launch.environment import read_token
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.job_terms import JobTerms
from tfdist.launch.peers.coordinator import Coordinator, SoleLauncher
from tfdist.launch.peers.messages import AttemptEnded
from tfdist.launch.run_dir.run_location import RunLocation, create_run_location, join_run_location
from tfdist.launch.run_dir.run_lock import RunLock
from tfdist.launch.signals import Signals
from tfdist.launch.worker.kernel_choice import KernelChoice
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.rundir.layout import RunDir
from tfdist.rundir.run_dir_creation import DEFAULT_PARENT

if TYPE_CHECKING:
    from tfdist.launch.rendezvous.join_barrier import FormedCluster

_START_SECONDS = 30.0
"""Seconds that the disk of the run directory may take until that is made, with what waits for other launchers there."""


@dataclass(frozen=True)
class FormedJob:
    """A job whose launchers have met.

    Attributes:
        membership: Which workers are started here.
        location: The run directory, and what all workers must know of the run.
        coordinator: The links to the other launchers.
        kernels: By which kernels the workers that are started here compute on the CPU.
    """

    membership: Membership
    location: RunLocation
    coordinator: Coordinator
    kernels: KernelChoice


def where(membership: Membership, index: int) -> dict[str, Any]:
    """The address of a worker, as a keyword argument: None in a job of one worker."""
    return {"address": None if membership.cluster is None else str(membership.cluster.workers[index])}


@contextlib.contextmanager
def formed_job(spec: JobSpec, membership: Membership, runs: RunLock, signals: Signals) -> Iterator[FormedJob]:
    """Meets the job's other launchers, and makes or joins the run directory; the links are closed at the end.

    Args:
        membership: Which workers are started here. Their ports are held.

    Raises:
        FormingError: The launchers did not find one another in time, or do not agree.
        RunDirError: The run directory cannot be used.
        UsageError: The workers cannot share what is cut as `--shard-over` or `--tensor` says.
        TfdistError: What `spec.preflight` raises.
        LauncherStopped: A signal came.
    """
    cluster = membership.cluster
    spec.sharding([""] if cluster is None else [address.host for address in cluster.workers])
    disk = BoundedDisk(spec.run_dir or DEFAULT_PARENT, _START_SECONDS)

    def create() -> RunLocation:
        spec.preflight()
        return disk.call(lambda: _create(spec, runs))

    terms = JobTerms(spec)
    if membership.cluster is None or not membership.remote:
        yield FormedJob(membership, create(), SoleLauncher(), terms.kernels)
        return
    # Imported here: a job of one launcher has no other one to meet.
    from tfdist.launch.rendezvous.cluster_formation import form

    created: list[RunLocation] = []

    def make_go() -> dict[str, Any]:
        created.append(create())
        return created[0].go()

    formed = form(
        membership,
        membership.cluster,
        make_go,
        spec.start_timeout,
        signals,
        token=read_token(spec.environ),
        terms=terms.offer(),
        check=terms.accept,
        watch=spec.while_forming,
    )
    with contextlib.closing(formed.links) as links:
        location = created[0] if created else _join(spec, membership, formed, disk)
        yield FormedJob(membership, location, links, terms.kernels)


def _create(spec: JobSpec, runs: RunLock) -> RunLocation:
    if spec.run_dir is not None:
        runs.take(RunDir(Path(spec.run_dir)))
    location = create_run_location(
        spec.run_dir,
        name=spec.name,
        overwrite=spec.overwrite,
        seed=spec.seed,
        resume=spec.resume,
        epochs=None if spec.config is None else spec.config.fit.epochs,
    )
    runs.take(location.run_dir)
    return location


def _join(spec: JobSpec, membership: Membership, formed: FormedCluster, disk: BoundedDisk) -> RunLocation:
    try:
        options: dict[str, Any] = {"name": spec.name, "overwrite": spec.overwrite, "resume": spec.resume}
        return disk.call(lambda: join_run_location(formed.go, spec.run_dir, **options))
    except TfdistError as error:
        index = membership.local[0]
        failure = from_start(index, error, **where(membership, index))
        formed.links.tell(AttemptEnded((failure,)))
        raise
