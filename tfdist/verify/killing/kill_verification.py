"""Verification under kills: an untouched run, the same run killed at some of its steps, and a comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tfdist.errors import UsageError
from tfdist.launch.job import run_job
from tfdist.launch.signals import Signals
from tfdist.launch.worker_requests import Kill, TraceRequest
from tfdist.rundir import RunDir
from tfdist.rundir.regular_files import read_text
from tfdist.training.probes.probe_files import Trace, TracedEnd
from tfdist.verify.killing.kill_plan import KillSpec, choose_kills
from tfdist.verify.killing.kill_report import KilledAttempt, KillVerification
from tfdist.verify.killing.trace_comparison import TracedRun, attempts_of, compare
from tfdist.verify.runs import STOPPED, Interrupted, WorkFolder, last_line, open_folder, raise_if_interrupted


def verify_killed(spec: KillSpec, tell: Callable[[str], None]) -> KillVerification:
    """Runs the target untouched and killed, and compares.

    Raises:
        UsageError: `spec.keep` cannot be used, the target trains nothing, or is too short for the kills.
        Interrupted: A signal came.
    """
    with Signals() as signals, open_folder(spec.keep) as folder:
        return _KillVerifier(spec, folder, tell, signals).verify()


class _Failed(Exception):
    """A run failed."""

    def __init__(self, verification: KillVerification) -> None:
        super().__init__(verification.failure)
        self.verification = verification


@dataclass
class _KillVerifier:
    spec: KillSpec
    folder: WorkFolder
    tell: Callable[[str], None]
    signals: Signals

    def verify(self) -> KillVerification:
        try:
            return self._compared()
        except _Failed as failed:
            self.folder.keep()
            return failed.verification

    def _compared(self) -> KillVerification:
        spec = self.spec
        whole = self._run("untouched", ())
        if not whole.chief.steps:
            raise UsageError(
                "The target never called fit, or fit had no step. Expected a script, a module or a config that trains "
                f"with fit: a loop of one's own cannot be killed at a step. Received: {spec.target}"
            )
        kills = choose_kills(whole.chief, spec.workers, spec.kills, spec.seed)
        killed = self._run("killed", kills)
        if len(killed.attempts) <= len(kills):
            raise UsageError(
                f"The run came to its end before kill {len(killed.attempts)} of {len(kills)}: no checkpoint was made "
                "between the start of its last attempt and its last step. Give more epochs, or checkpoints more often "
                "(in a config, --set checkpoint.every_steps=N)."
            )
        findings = compare(whole, killed)
        attempts = [
            KilledAttempt(begun, ended, _kill_of(number, ended, kills))
            for number, (begun, ended) in enumerate(attempts_of(killed))
        ]
        is_repeatable = None
        if any(finding.parted for finding in findings):
            is_repeatable = not any(finding.parted for finding in compare(whole, self._run("untouched again", ())))
        return KillVerification(
            steps=whole.chief.ended or 0, attempts=tuple(attempts), findings=findings, is_repeatable=is_repeatable
        )

    def _run(self, label: str, kills: tuple[Kill, ...]) -> TracedRun:
        """Runs the target to its end, through all kills."""
        raise_if_interrupted(self.signals)
        many = f", {len(kills)} kills, each of which is reported as a failure" if kills else ""
        self.tell(f"running {self.spec.name} on {self.spec.workers} worker(s): {label}{many}")
        name = label.replace(" ", "-")
        traces = self.folder.path / "traces" / name
        traces.mkdir(parents=True)
        request = TraceRequest(str(traces.absolute()), self.spec.steps, kills)
        run = RunDir(self.folder.path / name)
        # Of an attempt that is killed within a second of its first step, the launcher may not have heard a step yet.
        job = self.spec.job(
            self.spec.workers,
            run.path,
            max_restarts=len(kills),
            resume="auto",
            trace=request,
            offload=self.spec.offload,
        )
        code = run_job(job)
        if code in STOPPED:
            raise Interrupted(code)
        if code:
            raise _Failed(_failure(label, code, run))
        return _read(request, run, self.spec.workers)


def _kill_of(attempt: int, ended: int | None, kills: tuple[Kill, ...]) -> Kill | None:
    """The kill that ended an attempt; None where it finished, or failed before its kill."""
    kill = kills[attempt] if attempt < len(kills) else None
    return kill if kill is not None and ended is not None and ended >= kill.step else None


def _failure(label: str, code: int, run: RunDir) -> KillVerification:
    attempt = 0
    while run.log_file(0, attempt + 1).exists():
        attempt += 1
    said = last_line(run.log_file(0, attempt))
    text = f"the {label} run ended with exit code {code}" + (f" ({said})" if said else "")
    return KillVerification(failure=f"{text}; it is kept in {run}", failure_code=code)


def _read(request: TraceRequest, run: RunDir, workers: int) -> TracedRun:
    attempts: list[tuple[Trace, ...]] = []
    while request.steps_file(0, number := len(attempts)).exists() or run.log_file(0, number).exists():
        attempts.append(tuple(Trace.read(request.steps_file(worker, number)) for worker in range(workers)))
    ends = tuple(TracedEnd.read(request.end_file(worker)) for worker in range(workers))
    record = read_text(run.history_file) if run.history_file.exists() else None
    return TracedRun(tuple(attempts) or ((Trace(),),), ends, record)
