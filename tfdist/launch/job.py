"""One launcher's part of a job: takes the ports, forms the job, starts the workers and sees them to their end."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import time
from collections.abc import Mapping
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
from tfdist.launch.worker.process_termination import Orphans
from tfdist.net.port_reservation import PortReservation, reserve_ports
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.rundir.layout import RunDir
from tfdist.rundir.state_records import completion_text
from tfdist.text import print_line


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
    return _LauncherJob(spec).run(signals)


def say_report(spec: JobSpec, result: RunResult) -> None:
    """Prints how a job failed or was stopped on stderr; nothing where it ended by itself."""
    report = render_report(result, verbose=spec.verbose, worker_per_gpu=spec.worker_per_gpu)
    if not report:
        return
    saved = _saved(spec, result)
    report = f"{report}\n  {saved}" if saved else report
    if spec.log_format == "json":
        Terminal(_streams(), records=LogRecords(spec.name)).say(report, **failure_fields(result))
        return
    print_line(report, sys.stderr)


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


class _LauncherJob:
    """This launcher's part of a job, from its ports to its end."""

    def __init__(self, spec: JobSpec) -> None:
        self._spec = spec
        self._begun = time.time()
        self._lifecycle = JobLifecycle()
        metrics = RunMetrics(spec.name, None if spec.config is None else spec.config.fit.epochs)
        self._endpoint = MetricsEndpoint(spec.metrics_address, spec.metrics_port, metrics)

    def run(self, signals: Signals | None) -> RunResult:
        """See `run_to_result`."""
        spec = self._spec
        check_environment(spec.environ)
        # Asked again when it is needed; what is refused here has made nothing yet.
        self._shown_progress()
        # Taken first: a network of the workers' own has none of this machine's ports.
        with self._endpoint:
            membership = enter_network(spec.network, spec.membership)
            self._endpoint.start()
            with contextlib.nullcontext(signals) if signals is not None else Signals() as entered:
                return self._run_with_ports(membership, entered)

    def _run_with_ports(self, membership: Membership, signals: Signals) -> RunResult:
        """Runs the job with its workers' ports held."""
        spec = self._spec
        with (
            handed_over(spec.config, spec.document) as config_fd,
            PortReservation() as ports,
            RunLock() as runs,
        ):
            try:
                membership = reserve_ports(membership, ports)
                self._lifecycle.enter(JobPhase.FORMING)
                with formed_job(spec, membership, runs, signals) as formed:
                    if formed.location.completed:
                        self._say_completion(formed)
                        return RunResult(0, run_dir=str(formed.location.run_dir))
                    self._endpoint.follow(formed.location.run_dir, has_chief=membership.has_chief)
                    result = self._run_group(formed, signals, config_fd)
                    return replace(result, run_dir=str(formed.location.run_dir))
            except LauncherStopped as stopped:
                self._lifecycle.enter(JobPhase.FAILED)
                return RunResult(stopped.exit_code, stop=Stop(stopped.exit_code, str(stopped)))

    def _say_completion(self, formed: FormedJob) -> None:
        """Says that there is nothing to train, for which no worker need start."""
        run = formed.location.run_dir if formed.membership.has_chief else None
        if not self._spec.quiet:
            print_line(completion_text(self._spec.name, formed.location.completed, run), sys.stdout)

    def _run_group(self, formed: FormedJob, signals: Signals, config_fd: int | None) -> RunResult:
        spec, run, has_chief = self._spec, formed.location.run_dir, formed.membership.has_chief
        begun = time.monotonic()
        effects = self._effects(formed)
        dependencies = Dependencies(
            effects.start,
            effects.diagnosis,
            formed.coordinator,
            signals,
            linked=effects.linked,
            grace=spec.grace,
            observe=effects.observe,
            progress=effects.progress,
            judge_stop=effects.judge_stop,
            orphans=Orphans(),
        )
        self._lifecycle.call(effects.enter)
        with generated_code_dir() as code_dir:
            handed = {"config_fd": config_fd, "generated_code_dir": code_dir}
            assignments = self._assignments(formed, handed)
            restarts = spec.restart_policy()
            result = WorkerGroup(assignments, dependencies, self._lifecycle, restarts, effects.restart).run()
        effects.close(assignments, result)
        if spec.target_kind in ("script", "module") and has_chief and not spec.quiet:
            effects.terminal.say(closing_line(result, time.monotonic() - begun, run))
        return result

    def _effects(self, formed: FormedJob) -> LauncherEffects:
        """The effects of this launcher, whose terminal has said what is to be known at the start."""
        spec, membership, run = self._spec, formed.membership, formed.location.run_dir
        debugged = {0} if spec.debug_worker is None else {spec.debug_worker}
        shown = {"chief": debugged, "all": set(membership.local), "none": set()}[spec.show]
        progress = self._shown_progress()
        # Workers of other launchers write there, too, where `mpirun` or `srun` put the output of all ranks together.
        whole_lines = (spec.show == "all" and membership.num_workers > 1) or progress == "bar"
        records = LogRecords(spec.name) if spec.log_format == "json" else None
        terminal = Terminal(_streams(), prefix=spec.log_prefix, whole_lines=whole_lines, records=records)
        if not membership.has_chief:
            here = ", ".join(map(str, membership.local))
            print_line(f"worker(s) {here} start; logs in {run.logs_dir}", sys.stdout)
        if self._endpoint.url and not spec.quiet:
            terminal.say(f"tfdist: metrics at {self._endpoint.url}")
        if formed.kernels.warning:
            terminal.say(f"warning: {formed.kernels.warning}")
        display = ProgressDisplay(terminal, progress, encoding=getattr(sys.stderr, "encoding", None) or "utf-8")
        begun = None if spec.goes_on else self._begun
        ledger = LauncherLedger(run.ledger_file if membership.has_chief else None, begun)
        metrics = self._endpoint.metrics
        return LauncherEffects(spec, formed.location, formed.coordinator, ledger, terminal, shown, display, metrics)

    def _assignments(self, formed: FormedJob, handed: Mapping[str, Any]) -> list[Assignment]:
        """Returns what each worker of this launcher is told."""
        spec, membership, location = self._spec, formed.membership, formed.location
        size = len(membership.machine)
        bindings = choose_cores_here(size, len(membership.local), spec.environ)
        common = {**spec.worker_options(), **handed, "kernels": formed.kernels.setting}
        return [
            Assignment(
                run_dir=str(location.run_dir),
                seed=location.seed,
                index=index,
                num_workers=membership.num_workers,
                target_kind=spec.target_kind,
                target=spec.target,
                local_rank=place,
                local_size=size,
                own_gpus=membership.own_gpus,
                binding=bindings[place],
                attempt=location.attempt,
                job=location.job,
                is_elastic=spec.elastic is not None,
                cluster=None if membership.cluster is None else str(membership.cluster),
                **where(membership, index),
                **common,
            )
            for index in membership.local
            for place in [membership.machine.index(index)]
        ]

    def _shown_progress(self) -> Shown:
        """Returns how the progress is shown: of a config's run, as Keras shows that of a script."""
        spec = self._spec
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
