"""One launcher's part of a job: takes the ports, forms the job, starts the workers and sees them to their end."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from tfdist.cluster.membership import Membership
from tfdist.errors import RunDirError
from tfdist.launch.agent.dependencies import Dependencies
from tfdist.launch.agent.launcher_effects import LauncherEffects
from tfdist.launch.agent.worker_group import WorkerGroup
from tfdist.launch.environment import Assignment, check_environment, choose_cores_here, is_dumb_terminal
from tfdist.launch.job_formation import FormedJob, formed_job, where
from tfdist.launch.job_phases import JobLifecycle, JobPhase
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.logs.log_records import LogRecords
from tfdist.launch.logs.terminal import STDERR, STDOUT, Terminal, keeps_bars
from tfdist.launch.metrics.metrics_endpoint import MetricsEndpoint
from tfdist.launch.metrics.run_metrics import RunMetrics
from tfdist.launch.network_isolation import enter_network
from tfdist.launch.peers.messages import Stop
from tfdist.launch.progress_display import ProgressDisplay, Shown, choose
from tfdist.launch.run_dir.closing_report import closing_line, failure_fields, render_report, saved_line
from tfdist.launch.run_dir.run_lock import RunLock
from tfdist.launch.run_dir.run_records import LauncherLedger
from tfdist.launch.run_result import RunResult
from tfdist.launch.signals import LauncherStopped, Signals
from tfdist.launch.worker.config_handover import generated_code_dir, handed_over
from tfdist.launch.worker.core_binding import CoreBinding
from tfdist.launch.worker.process_termination import Orphans
from tfdist.net.port_reservation import PortReservation, reserve_ports
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.rundir.layout import RunDir
from tfdist.rundir.state_records import completion_text


def run_job(spec: JobSpec) -> int:
    """Runs this launcher's part of a job and prints its failure, if it fails, on stderr.

    Returns:
        The exit code: 0, what the scripts agree on, the first failure's, or 128 + the signal that stopped it.

    Raises:
        TfdistError: As `run_to_result`.
    """
    result = run_to_result(spec)
    say_report(spec, result)
    return result.code


def say_report(spec: JobSpec, result: RunResult) -> None:
    """Prints how a job failed or was stopped on stderr; nothing where it ended by itself."""
    report = render_report(result, verbose=spec.verbose, worker_per_gpu=spec.worker_per_gpu)
    if report:
        saved = _saved(spec, result)
        report = f"{report}\n  {saved}" if saved else report
        _say_at_the_end(spec, report, **failure_fields(result))


def _saved(spec: JobSpec, result: RunResult) -> str:
    """Returns what of a training that failed is saved; empty where nothing was trained, or it is saved elsewhere."""
    elsewhere = spec.config is not None and spec.config.checkpoint.directory is not None
    trains = spec.target_kind in ("config", "script", "module")
    if result.stop is not None or not result.step or result.run_dir is None or elsewhere or not trains:
        return ""
    is_kept = spec.config is not None or spec.saves_by_itself
    with contextlib.suppress(RunDirError):
        run = RunDir(Path(result.run_dir))
        return BoundedDisk(run.path).call(lambda: saved_line(run, result.step, is_kept=is_kept))
    return ""


def run_to_result(spec: JobSpec, signals: Signals | None = None) -> RunResult:
    """Runs this launcher's part of a job, and leaves it to the caller to tell of its failure.

    Args:
        signals: Those of the caller, who has entered them; None for the job's own.

    Raises:
        UsageError: The workers cannot have a network of their own, TFDIST_TOKEN is empty, a variable of the
            environment would make the training wrong, a bar is wanted and cannot be drawn, or metrics that cannot be
            served.
        PortTakenError: A worker's port, or that of the metrics, belongs to somebody else.
        FormingError: The launchers did not find one another in time, or do not agree.
        RunDirError: The run directory cannot be used, or there is none for temporary files.
        TfdistError: What `spec.preflight` raises.
    """
    begun = time.time()
    check_environment(spec.environ)
    # Asked again when it is needed; what is refused here has made nothing yet.
    _shown_progress(spec)
    lifecycle = JobLifecycle()
    metrics = RunMetrics(spec.name, None if spec.config is None else spec.config.fit.epochs)
    # Taken first: a network of the workers' own has none of this machine's ports.
    with MetricsEndpoint(spec.metrics_address, spec.metrics_port, metrics) as endpoint:
        membership = enter_network(spec.network, spec.membership)
        endpoint.start()
        return _run_with_ports(spec, membership, lifecycle, begun, endpoint, signals)


def _say_at_the_end(spec: JobSpec, report: str, **fields: Any) -> None:
    if spec.log_format == "json":
        Terminal(_streams(), records=LogRecords(spec.name)).say(report, **fields)
        return
    # A stderr that is gone must not change the exit code.
    with contextlib.suppress(OSError):
        print(report, file=sys.stderr, flush=True)


def _run_with_ports(
    spec: JobSpec,
    membership: Membership,
    lifecycle: JobLifecycle,
    begun: float,
    endpoint: MetricsEndpoint,
    outer: Signals | None,
) -> RunResult:
    """Runs the job with its workers' ports held."""
    with (
        contextlib.nullcontext(outer) if outer is not None else Signals() as signals,
        handed_over(spec.config, spec.document) as config_fd,
        PortReservation() as ports,
        RunLock() as runs,
    ):
        try:
            membership = reserve_ports(membership, ports)
            lifecycle.enter(JobPhase.FORMING)
            with formed_job(spec, membership, runs, signals) as formed:
                if formed.location.completed:
                    _say_completion(spec, formed)
                    return RunResult(0, run_dir=str(formed.location.run_dir))
                run, has_chief = formed.location.run_dir, membership.has_chief
                endpoint.follow(run, has_chief=has_chief)
                ledger = LauncherLedger(run.ledger_file if has_chief else None, None if spec.goes_on else begun)
                result = _run_group(spec, formed, signals, ledger, lifecycle, config_fd, endpoint)
                return replace(result, run_dir=str(run))
        except LauncherStopped as stopped:
            lifecycle.enter(JobPhase.FAILED)
            return RunResult(stopped.exit_code, stop=Stop(stopped.exit_code, str(stopped)))


def _say_completion(spec: JobSpec, formed: FormedJob) -> None:
    """Says that there is nothing to train, for which no worker need start."""
    run = formed.location.run_dir if formed.membership.has_chief else None
    if not spec.quiet:
        with contextlib.suppress(OSError):
            print(completion_text(spec.name, formed.location.completed, run), flush=True)


def _run_group(
    spec: JobSpec,
    formed: FormedJob,
    signals: Signals,
    ledger: LauncherLedger,
    lifecycle: JobLifecycle,
    config_fd: int | None,
    endpoint: MetricsEndpoint,
) -> RunResult:
    membership, location, coordinator = formed.membership, formed.location, formed.coordinator
    debugged = {0} if spec.debug_worker is None else {spec.debug_worker}
    shown = {"chief": debugged, "all": set(membership.local), "none": set()}[spec.show]
    progress = _shown_progress(spec)
    whole_lines = len(shown) > 1 or progress == "bar"
    records = LogRecords(spec.name) if spec.log_format == "json" else None
    terminal = Terminal(_streams(), prefix=spec.log_prefix, whole_lines=whole_lines, records=records)
    if not membership.has_chief:
        with contextlib.suppress(OSError):
            here = ", ".join(map(str, membership.local))
            print(f"worker(s) {here} start; logs in {location.run_dir.logs_dir}", flush=True)
    if endpoint.url and not spec.quiet:
        terminal.say(f"tfdist: metrics at {endpoint.url}")
    if formed.kernels.warning:
        terminal.say(f"warning: {formed.kernels.warning}")
    begun = time.monotonic()
    display = ProgressDisplay(terminal, progress, encoding=getattr(sys.stderr, "encoding", None) or "utf-8")
    effects = LauncherEffects(spec, location, coordinator, ledger, terminal, shown, display, endpoint.metrics)
    dependencies = Dependencies(
        effects.start,
        effects.diagnosis,
        coordinator,
        signals,
        linked=effects.linked,
        grace=spec.grace,
        observe=effects.observe,
        progress=effects.progress,
        judge_stop=effects.judge_stop,
        orphans=Orphans(),
    )
    lifecycle.call(effects.enter)
    with generated_code_dir() as code_dir:
        handed = {"config_fd": config_fd, "generated_code_dir": code_dir}
        assignments = _assignments(spec, formed, handed)
        result = WorkerGroup(assignments, dependencies, lifecycle, spec.restart_policy(), effects.restart).run()
    effects.close(assignments, result)
    if spec.target_kind in ("script", "module") and membership.has_chief and not spec.quiet:
        terminal.say(closing_line(result, time.monotonic() - begun, location.run_dir))
    return result


def _assignments(spec: JobSpec, formed: FormedJob, handed: Mapping[str, Any]) -> list[Assignment]:
    """Returns what each worker of this launcher is told."""
    membership = formed.membership
    bindings = choose_cores_here(len(membership.machine), len(membership.local), spec.environ)
    return [_assignment(spec, formed, index, bindings, handed) for index in membership.local]


def _assignment(
    spec: JobSpec,
    formed: FormedJob,
    index: int,
    bindings: Sequence[CoreBinding | None],
    handed: Mapping[str, Any],
) -> Assignment:
    membership, location = formed.membership, formed.location
    place = membership.machine.index(index)
    return Assignment(
        run_dir=str(location.run_dir),
        seed=location.seed,
        index=index,
        num_workers=membership.num_workers,
        target_kind=spec.target_kind,
        target=spec.target,
        local_rank=place,
        local_size=len(membership.machine),
        own_gpus=membership.own_gpus,
        binding=bindings[place],
        attempt=location.attempt,
        job=location.job,
        is_elastic=spec.elastic is not None,
        cluster=None if membership.cluster is None else str(membership.cluster),
        **handed,
        **where(membership, index),
        **{**spec.worker_options(), "kernels": formed.kernels.setting},
    )


def _shown_progress(spec: JobSpec) -> Shown:
    """Returns how the progress is shown: of a config's run, as Keras shows that of a script."""
    if spec.quiet or spec.target_kind != "config":
        return "none"
    streams = _streams()
    keeps = spec.log_format == "text" and keeps_bars(streams.get(STDOUT), streams.get(STDERR))
    has_rich = importlib.util.find_spec("rich") is not None
    return choose(spec.progress, is_screen=keeps, is_dumb=is_dumb_terminal(spec.environ), has_rich=has_rich)


def _streams() -> dict[int, BinaryIO]:
    """The launcher's own stdout and stderr, unbuffered."""
    streams = {STDOUT: sys.stdout, STDERR: sys.stderr}
    for stream in streams.values():
        stream.flush()
    return {n: getattr(s.buffer, "raw", s.buffer) for n, s in streams.items() if hasattr(s, "buffer")}
