"""One job as one launcher sees it: hold the ports, form the cluster, start the workers, see them to their end."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, get_args

from tfdist.cluster.membership import Membership
from tfdist.errors import RunDirError, TfdistError, UsageError
from tfdist.launch.attempt import Outcome, Surroundings
from tfdist.launch.bookkeeping import Diagnosis, close_state, write_failure, write_phase, write_state
from tfdist.launch.control import Alone, Control
from tfdist.launch.environment import Assignment, Communication, Compression, Resume, TargetKind, read_token
from tfdist.launch.events import Ended, Restart, Stop
from tfdist.launch.failures import from_start
from tfdist.launch.forming import Formed, form
from tfdist.launch.group import Group
from tfdist.launch.holding import PortHold, hold_ports
from tfdist.launch.memory import KillCount
from tfdist.launch.network import Network, enter_network
from tfdist.launch.output import STDERR, STDOUT, Show, Terminal
from tfdist.launch.phases import Phase
from tfdist.launch.process import WORKER_MODULE, WorkerProcess
from tfdist.launch.recording import RecordingRequest
from tfdist.launch.remote_states import RemoteStates
from tfdist.launch.report import render, render_restart
from tfdist.launch.run_hold import RunHold
from tfdist.launch.run_place import Place, create_place, join_place
from tfdist.launch.settings import check_settings
from tfdist.launch.signals import Signals, Stopped
from tfdist.launch.stragglers import Stragglers
from tfdist.launch.worker import Worker
from tfdist.rundir.layout import RunDir
from tfdist.rundir.state import State, WorkerState


@dataclass(frozen=True)
class JobSpec:
    """What a launcher is asked to do.

    Attributes:
        membership: The cluster, and which of its workers are started here.
        target_kind: What `target` is.
        target: Path or dotted name of what to train.
        args: The script's own arguments.
        name: The run's name, for the default run directory.
        run_dir: Where the run writes on this machine; None for what the chief's launcher chooses.
        overwrite: Whether an earlier run there is replaced.
        seed: The run's seed; None to draw one. The chief's launcher decides for all.
        overrides: KEY=VALUE texts of `--set`.
        settings: Dotted key -> value of what all launchers must have alike in their configs; None without a config.
        devices: GPUs to use; None for all.
        logical_devices: Parts of each device; None for no split.
        memory_limit: MiB of a logical device.
        communication: Which collectives.
        compression: What gradients are sent as between workers.
        start_timeout: Seconds in which the cluster must form.
        first_step_timeout: Seconds that the first step may take, which compiles.
        step_timeout: Seconds without any progress after which the group hangs.
        grace: Seconds that the workers have to stop at a step boundary when the job is asked to stop.
        max_restarts: Restarts of the whole group without progress between them.
        resume: Whether the run goes on from the checkpoint in its run directory.
        network: `host`, or `private` for workers of one machine that nobody else can reach.
        show: Whose output the terminal shows.
        log_prefix: Whether shown lines begin with their worker's index.
        verbose: Say more.
        worker_module: The module that workers run; it reads its `Assignment`.
        environ: What the workers' environment is made from; None for this process's.
        recording: What the workers record for `tfdist verify`; None to train as usual.
    """

    membership: Membership
    target_kind: TargetKind
    target: str
    args: tuple[str, ...] = ()
    name: str = "run"
    run_dir: str | None = None
    overwrite: bool = False
    seed: int | None = None
    overrides: tuple[str, ...] = ()
    settings: Mapping[str, Any] | None = None
    devices: tuple[int, ...] | None = None
    logical_devices: int | None = None
    memory_limit: int | None = None
    communication: Communication = "auto"
    compression: Compression = "none"
    start_timeout: float = 120.0
    first_step_timeout: float = 1800.0
    step_timeout: float = 600.0
    grace: float = 30.0
    max_restarts: int = 0
    resume: Resume = "never"
    network: Network = "host"
    show: Show = "chief"
    log_prefix: bool = False
    verbose: bool = False
    worker_module: str = WORKER_MODULE
    environ: Mapping[str, str] | None = None
    recording: RecordingRequest | None = None

    def __post_init__(self) -> None:
        if self.show not in get_args(Show):
            raise UsageError(f"--show must be one of {get_args(Show)}. Received: {self.show!r}")
        if self.run_dir == "":
            raise UsageError("--run-dir is empty. Expected a directory, or no --run-dir at all. Received: --run-dir ''")
        for option in ("start_timeout", "first_step_timeout", "step_timeout", "grace"):
            if not getattr(self, option) > 0:
                flag = "--" + option.replace("_", "-")
                raise UsageError(f"{flag} must be more than 0 seconds. Received: {getattr(self, option)}")


def run_job(spec: JobSpec) -> int:
    """Runs this launcher's part of a job and prints its failure, if it fails, on stderr.

    Returns:
        The exit code: 0, what the scripts agree on, the first failure's, or 128 + the signal that stopped it.

    Raises:
        UsageError: The workers cannot have a network of their own, or TFDIST_TOKEN is empty.
        PortTakenError: A worker's port belongs to somebody else.
        FormingError: The launchers did not find one another in time, or do not agree.
        RunDirError: The run directory cannot be used.
    """
    membership = enter_network(spec.network, spec.membership)
    with Signals() as signals, PortHold() as ports, RunHold() as runs:
        try:
            membership = hold_ports(membership, ports)
            with _formed(spec, membership, runs, signals) as (place, control):
                outcome = _run_group(spec, membership, place, control, signals)
        except Stopped as stopped:
            outcome = Outcome(stopped.exit_code, stop=Stop(stopped.exit_code, str(stopped)))
    report = render(outcome, verbose=spec.verbose)
    if report:
        print(report, file=sys.stderr, flush=True)
    return outcome.code


@contextlib.contextmanager
def _formed(spec: JobSpec, membership: Membership, runs: RunHold, signals: Signals) -> Iterator[tuple[Place, Control]]:
    """The job's common ground and the line to its other launchers, which is hung up at the end."""

    def create() -> Place:
        if spec.run_dir is not None:
            runs.take(RunDir(Path(spec.run_dir)))
        place = create_place(
            spec.run_dir, name=spec.name, overwrite=spec.overwrite, seed=spec.seed, resume=spec.resume
        )
        runs.take(place.run_dir)
        return place

    if membership.cluster is None or not membership.remote:
        yield create(), Alone()
        return
    created: list[Place] = []

    def make_go() -> dict[str, Any]:
        created.append(create())
        return {**created[0].go(), "settings": spec.settings}

    formed = form(membership, membership.cluster, make_go, spec.start_timeout, signals, token=read_token(spec.environ))
    with contextlib.closing(formed.control) as control:
        yield created[0] if created else _join(spec, membership, formed), control


def _join(spec: JobSpec, membership: Membership, formed: Formed) -> Place:
    try:
        check_settings(spec.settings, formed.go.get("settings"))
        return join_place(formed.go, spec.run_dir, name=spec.name, overwrite=spec.overwrite, resume=spec.resume)
    except TfdistError as error:
        index = membership.local[0]
        failure = from_start(index, error, **_where(membership, index))
        formed.control.tell(Ended((failure,)))
        raise


def _run_group(spec: JobSpec, membership: Membership, place: Place, control: Control, signals: Signals) -> Outcome:
    assignments = [_assignment(spec, membership, place, index) for index in membership.local]
    shown = {"chief": {0}, "all": set(membership.local), "none": set()}[spec.show]
    terminal = Terminal(_streams(), prefix=spec.log_prefix, whole_lines=len(shown) > 1)

    def start(assignment: Assignment) -> Worker:
        index = assignment.index
        log = place.run_dir.log_file(index, assignment.attempt)
        worker = WorkerProcess(assignment, log, terminal if index in shown else None, spec.worker_module, spec.environ)
        # The worker says the same as soon as it can; one that never gets there has at least this.
        with contextlib.suppress(RunDirError):
            write_state(place, assignment, worker.pid, State.STARTING)
        return worker

    if not membership.has_chief:
        print(f"worker(s) {', '.join(map(str, membership.local))} start; logs in {place.run_dir.logs_dir}", flush=True)

    def enter(phase: Phase, attempt: int) -> None:
        if place.writes_failure:
            write_phase(place, phase, attempt)

    def tell(outcome: Outcome, restart: Restart) -> None:
        terminal.say(render_restart(outcome, restart, verbose=spec.verbose))
        if place.writes_failure:
            write_failure(place.run_dir.attempt_failure_file(restart.attempt - 1), outcome.failures)

    elsewhere = RemoteStates(place.run_dir, control.remote if control.leads else ())
    stragglers = Stragglers()

    def observe(states: Mapping[int, WorkerState]) -> None:
        elsewhere.write(states.values())
        if control.leads:
            for message in stragglers.observe(states):
                terminal.say(message)

    around = Surroundings(start, Diagnosis(place, KillCount.now()), control, signals, spec.grace, observe)
    outcome = Group(assignments, around, spec.max_restarts, tell, enter).run()
    if outcome.failures or outcome.stop:
        for assignment in assignments:
            close_state(place, assignment)
    if outcome.failures and not outcome.stop and place.writes_failure:
        write_failure(place.run_dir.failure_file, outcome.failures)
    return outcome


def _assignment(spec: JobSpec, membership: Membership, place: Place, index: int) -> Assignment:
    return Assignment(
        run_dir=str(place.run_dir),
        seed=place.seed,
        attempt=place.attempt,
        max_restarts=spec.max_restarts,
        index=index,
        num_workers=membership.num_workers,
        target_kind=spec.target_kind,
        target=spec.target,
        args=spec.args,
        overrides=spec.overrides,
        local_rank=membership.machine.index(index),
        local_size=len(membership.machine),
        devices=spec.devices,
        logical_devices=spec.logical_devices,
        memory_limit=spec.memory_limit,
        communication=spec.communication,
        compression=spec.compression,
        first_step_timeout=spec.first_step_timeout,
        step_timeout=spec.step_timeout,
        grace=spec.grace,
        resume=spec.resume,
        verbose=spec.verbose,
        recording=spec.recording,
        cluster=None if membership.cluster is None else str(membership.cluster),
        **_where(membership, index),
    )


def _where(membership: Membership, index: int) -> dict[str, Any]:
    return {"address": None if membership.cluster is None else str(membership.cluster.workers[index])}


def _streams() -> dict[int, BinaryIO]:
    """The launcher's own stdout and stderr, unbuffered."""
    streams = {STDOUT: sys.stdout, STDERR: sys.stderr}
    for stream in streams.values():
        stream.flush()
    return {n: getattr(s.buffer, "raw", s.buffer) for n, s in streams.items() if hasattr(s, "buffer")}
