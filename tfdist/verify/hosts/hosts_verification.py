"""Verification of an elastic job: an untouched run, the same run with hosts lost and back, and a comparison."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfdist.errors import UsageError
from tfdist.launch.elastic.elastic_options import REJOIN_SECONDS, ElasticOptions
from tfdist.launch.job import run_job
from tfdist.launch.signals import Signals
from tfdist.launch.worker.worker_process import WORKER_MODULE
from tfdist.launch.worker_requests import TraceRequest
from tfdist.rundir import RunDir
from tfdist.rundir.regular_files import read_text
from tfdist.training.probes.probe_files import Trace, TracedEnd
from tfdist.verify.hosts.host_process import HostProcess, HostRequest
from tfdist.verify.hosts.hosts_report import Generation, HostsVerification
from tfdist.verify.hosts.hosts_run import HostsRun, HostsRunError, Reached
from tfdist.verify.hosts.namespace_hosts import NamespaceHost, namespace_hosts
from tfdist.verify.hosts.rounded_comparison import Rounding, compare_rounded, has_changed
from tfdist.verify.hosts.schedule import CHIEF, HostEvent, HostsSpec, draw_events, draw_steps
from tfdist.verify.killing.trace_comparison import Finding, TracedRun
from tfdist.verify.runs import STOPPED, Interrupted, WorkFolder, last_line, open_folder, raise_if_interrupted

_NAME = re.compile(r"worker-([0-9]+)\.([0-9]+)\.jsonl")


def attempts_in(folder: Path) -> list[int]:
    """The attempts that have left traces in a folder, ascending."""
    return sorted({attempt for _, attempt in _workers_in(folder)})


def read_run(request: TraceRequest, chief: RunDir) -> TracedRun:
    """Reads what the workers of all attempts have traced."""
    found = _workers_in(Path(request.directory))
    attempts = [
        tuple(Trace.read(request.steps_file(worker, attempt)) for worker, of in found if of == attempt)
        for attempt in sorted({attempt for _, attempt in found})
    ]
    # An earlier `fit` of a script may have left ends of workers that the last attempt has not.
    last = len(attempts[-1]) if attempts else 1
    ends = tuple(TracedEnd.read(request.end_file(worker)) for worker in range(last))
    record = read_text(chief.history_file) if chief.history_file.exists() else None
    return TracedRun(tuple(attempts) or ((Trace(),),), ends, record)


def _workers_in(folder: Path) -> list[tuple[int, int]]:
    """Worker and attempt of each trace, ascending."""
    matches = (_NAME.fullmatch(file.name) for file in folder.iterdir())
    return sorted((int(match[1]), int(match[2])) for match in matches if match)


_PORT = 20_000
_REJOIN_SECONDS = 10.0
"""Seconds of waiting for a host that does not come back; one that does takes a second or two."""


def verify_hosts(
    spec: HostsSpec, tell: Callable[[str], None], worker_module: str = WORKER_MODULE
) -> HostsVerification:
    """Runs the target untouched and on hosts that are lost, and compares.

    Raises:
        NamespacesUnavailableError: Hosts cannot be made here.
        UsageError: `spec.keep` cannot be used, the target trains nothing, or is too short for the losses.
        Interrupted: A signal came.
    """
    with Signals() as signals, namespace_hosts(spec.hosts) as places, open_folder(spec.keep) as folder:
        verifier = _HostsVerifier(spec, folder, tell, signals, places, worker_module)
        try:
            return verifier.verify()
        except HostsRunError as error:
            folder.keep()
            return HostsVerification(failure=f"{error}; all is kept in {folder.path}", failure_code=error.code)


@dataclass
class _HostsVerifier:
    spec: HostsSpec
    folder: WorkFolder
    tell: Callable[[str], None]
    signals: Signals
    places: Sequence[NamespaceHost]
    worker_module: str

    def verify(self) -> HostsVerification:
        spec = self.spec
        events = draw_events(spec.hosts, spec.least, spec.kills, spec.seed, cut=spec.cut)
        whole, _ = self._run_on_hosts("untouched", (), ())
        if not whole.chief.steps:
            raise UsageError(
                "The target never called fit, or fit had no step. Expected a script, a module or a config that trains "
                f"with fit: hosts cannot be lost at a step of a loop of one's own. Received: {spec.target}"
            )
        holds = draw_steps(whole.chief, len(events), spec.seed)
        lossy, reached = self._run_on_hosts("lossy", events, holds)
        rounding = self._rounding(whole) if has_changed(whole, lossy) else None
        findings = compare_rounded(whole, lossy, rounding)
        generations = _generations(lossy, attempts_in(self._traces("lossy")), events, reached)
        is_repeatable = self._is_repeatable(findings, whole)
        return HostsVerification(
            steps=whole.chief.ended or 0,
            hosts=spec.hosts,
            losses=spec.kills,
            generations=generations,
            findings=findings,
            is_exact=rounding is None,
            is_repeatable=is_repeatable,
        )

    def _rounding(self, whole: TracedRun) -> Rounding:
        alone = None if self.spec.tolerance is not None else self._run_alone()
        return Rounding(alone, whole, self.spec.tolerance)

    def _is_repeatable(self, findings: Sequence[Finding], whole: TracedRun) -> bool | None:
        """Returns whether two untouched runs are the same, where that has to be known."""
        if not any(finding.parted for finding in findings):
            return None
        again, _ = self._run_on_hosts("untouched again", (), ())
        return not any(finding.parted for finding in compare_rounded(whole, again, None))

    def _traces(self, name: str) -> Path:
        return (self.folder.path / "traces" / name).absolute()

    def _begin(self, name: str, holds: tuple[int, ...] = ()) -> TraceRequest:
        raise_if_interrupted(self.signals)
        traces = self._traces(name)
        traces.mkdir(parents=True)
        return TraceRequest(str(traces), self.spec.steps, holds=holds)

    def _run_on_hosts(
        self, label: str, events: tuple[HostEvent, ...], holds: tuple[int, ...]
    ) -> tuple[TracedRun, list[Reached]]:
        """Runs the target to its end, whatever happens to its hosts."""
        spec, name = self.spec, label.replace(" ", "-")
        request = self._begin(name, holds)
        times = "once" if spec.kills == 1 else f"{spec.kills} times"
        how = f"hosts are lost {times}, at least {spec.least} go on" if events else label
        self.tell(f"running {spec.name} on {spec.hosts} hosts: {how}")
        hosts = [self._host(number, name, request, has_events=bool(events)) for number in range(spec.hosts)]
        run = HostsRun(hosts, request, events, self.tell, self.signals, spec.start_timeout)
        reached = run.run()
        return read_run(request, RunDir(Path(hosts[CHIEF].request.run_dir))), reached

    def _host(self, number: int, name: str, trace: TraceRequest, *, has_events: bool) -> HostProcess:
        spec, folder = self.spec, (self.folder.path / name / f"host-{number}").absolute()
        folder.mkdir(parents=True)
        # All are on this machine, whose disk has the checkpoints: no second chief can go on unseen.
        least = spec.least if has_events else spec.hosts
        rejoin = _REJOIN_SECONDS if least < spec.hosts else REJOIN_SECONDS
        request = HostRequest(
            spec,
            ",".join(f"{place.ipv4}:{_PORT}" for place in self.places),
            ElasticOptions(least, rejoin, grow=True, is_fenced=True),
            trace,
            str(folder / "run"),
            str(folder / "said"),
            self.worker_module,
        )
        return HostProcess(self.places[number], request, folder / "output" if spec.show == "none" else None)

    def _run_alone(self) -> TracedRun:
        """Runs the target on one worker of this machine."""
        request = self._begin("alone")
        self.tell(f"running {self.spec.name} on one worker: untouched")
        run = RunDir(self.folder.path / "alone")
        job = self.spec.job(1, run.path, resume="auto", trace=request, worker_module=self.worker_module)
        code = run_job(job)
        if code in STOPPED:
            raise Interrupted(code)
        if code:
            said = last_line(run.log_file(0, 0))
            text = f"the run on one worker ended with exit code {code}" + (f" ({said})" if said else "")
            raise HostsRunError(text, code)
        return read_run(request, run)


def _generations(
    lossy: TracedRun, attempts: Sequence[int], events: Sequence[HostEvent], reached: Sequence[Reached]
) -> tuple[Generation, ...]:
    happened = {where.attempt: event for event, where in zip(events, reached, strict=True)}
    found = []
    for number, traces in zip(attempts, lossy.attempts, strict=True):
        workers = next((trace.workers for trace in traces if trace.workers is not None), None)
        ended = max((trace.ended for trace in traces if trace.ended is not None), default=None)
        found.append(Generation(number, workers, traces[0].begun, ended, happened.get(number)))
    return tuple(found)
