"""Verification on replicas: the reference, the effects of rounding, then every run to compare."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tfdist.errors import UsageError, WorkerFailedError
from tfdist.launch.job import run_job
from tfdist.launch.signals import Signals
from tfdist.launch.worker_options import WorkerOptions
from tfdist.launch.worker_requests import RecordingRequest
from tfdist.rundir import RunDir
from tfdist.training.probes.probe_files import Recording
from tfdist.training.session.worker_context import idle_options
from tfdist.verify.replicas.likely_causes import ModelFacts
from tfdist.verify.replicas.recording_comparison import FLOAT32, HALF, Tolerance, compare, measure_tolerance, reproduced
from tfdist.verify.replicas.variants import AGAIN, REFERENCE, Unavailable, Variant, VerifySpec, variants
from tfdist.verify.replicas.verification_report import ComparisonResult, ComparisonVerdict, Verification, judged
from tfdist.verify.runs import DIFFERS, STOPPED, Interrupted, WorkFolder, last_line, open_folder, raise_if_interrupted


@dataclass(frozen=True)
class RecordedRun:
    """Outcome of one run.

    Attributes:
        code: Its exit code.
        recordings: One a worker, the chief's first; empty when the job failed, or when a worker has none with a step.
        idle: The workers without a recorded step.
        last_line: Of the chief's log, when the job failed; empty where it has none.
    """

    code: int
    recordings: tuple[Recording, ...] = ()
    idle: tuple[int, ...] = ()
    last_line: str = ""

    @property
    def problem(self) -> str | None:
        """The reason why there is nothing to compare, or None."""
        if self.code:
            said = f" ({self.last_line})" if self.last_line else ""
            return f"The run ended with exit code {self.code}{said}"
        if self.idle and 0 not in self.idle:
            workers = ", ".join(map(str, self.idle))
            return f"Worker(s) {workers} never called fit, or fit had no step there, so there is nothing to compare"
        if not self.recordings:
            return "The target never called fit, or fit had no step, so there is nothing to compare"
        return None


def run_variant(spec: VerifySpec, variant: Variant, folder: Path) -> RecordedRun:
    """Runs a variant to its last recorded step.

    Args:
        folder: An existing folder, for the run directory and the recordings.

    Raises:
        TfdistError: The job could not be started.
    """
    name = re.sub(r"[^a-z0-9]+", "-", variant.label.lower())
    recordings = folder / "recordings" / name
    recordings.mkdir(parents=True)
    request = RecordingRequest(
        str(recordings.absolute()),
        spec.steps,
        variant.replicas,
        variant.precision,
        variant.perturbed,
    )
    jit = {} if variant.jit_compile is None else {"jit": "on" if variant.jit_compile else "off"}
    job = spec.job(
        variant.workers,
        folder / name,
        communication=variant.communication,
        compression=variant.compression,
        recording=request,
        **jit,
    )
    code = run_job(job)
    if code:
        return RecordedRun(code, last_line=last_line(RunDir(folder / name).log_file(0, 0)))
    read = [Recording.read(request.file(index)) for index in range(variant.workers)]
    idle = tuple(index for index, recording in enumerate(read) if recording is None or not recording.moments[1:])
    return RecordedRun(code, () if idle else tuple(recording for recording in read if recording is not None), idle)


def verify(spec: VerifySpec, tell: Callable[[str], None]) -> Verification:
    """Runs the target in every way that was asked for, and compares.

    Raises:
        UsageError: `spec.keep` cannot be used, or the target trains nothing.
        Interrupted: A signal came.
    """
    with Signals() as signals, open_folder(spec.keep) as folder:
        return _Verifier(spec, folder, tell, signals).verify()


@dataclass
class _Verifier:
    spec: VerifySpec
    folder: WorkFolder
    tell: Callable[[str], None]
    signals: Signals
    runs: dict[str, RecordedRun] = field(default_factory=dict)

    def verify(self) -> Verification:
        reference = self._run(REFERENCE)
        if reference.code:
            return Verification((self._failed(REFERENCE, reference),), FLOAT32, is_measured=False)
        if reference.problem:
            raise UsageError(
                f"{reference.problem}. Expected a script, a module or a config that trains with fit: a loop of one's "
                f"own cannot be compared. Received: {self.spec.target}"
            )
        chief = reference.recordings[0]
        if _is_without_numbers(chief):
            return Verification((_nothing_to_compare(),), FLOAT32, is_measured=False)
        self._tell_idle_options(chief.facts["gpus"])
        models = chief.facts["models"]
        facts = ModelFacts.of(models)
        todo = variants(
            self.spec, chief.facts["gpus"], jit_compile=any(model["jit_compile"] for model in models), half=facts.half
        )
        tolerance, results = self._tolerance(facts)
        if any(result.verdict is ComparisonVerdict.PARTED for result in results):
            reason = "the training cannot be repeated on one replica, so there is nothing to compare with"
            results += [
                ComparisonResult(variant.label, REFERENCE.label, ComparisonVerdict.SKIPPED, reason=reason)
                for variant in todo
            ]
        else:
            results += [self._result(variant, tolerance, facts) for variant in todo]
        return Verification(
            tuple(results),
            tolerance.least,
            self.spec.tolerance is None,
            facts.half,
            self.spec.compression,
            tuple(models),
            chief.moments[-1].step,
            chief.facts["gpus"],
        )

    def _tell_idle_options(self, gpus: int) -> None:
        """The runs have said so in their logs, and the terminal does not show these."""
        for text in idle_options(WorkerOptions(memory_limit=self.spec.memory_limit), workers=1, on_gpus=gpus > 0):
            self.tell(text)

    def _tolerance(self, facts: ModelFacts) -> tuple[Tolerance, list[ComparisonResult]]:
        """The tolerance, and the result of measuring it if that failed."""
        if self.spec.tolerance is not None:
            return Tolerance(self.spec.tolerance), []
        floor = Tolerance(HALF if facts.half else FLOAT32, half=facts.half)
        perturbed = self._run(AGAIN)
        if perturbed.problem:
            return floor, [self._failed(AGAIN, perturbed)]
        once, twice = self.runs[REFERENCE.label].recordings[0], perturbed.recordings[0]
        comparison = reproduced(once, twice, half=facts.half)
        if not comparison.passed:
            return floor, [judged(AGAIN, comparison, facts)]
        return measure_tolerance(once, twice, half=facts.half), []

    def _result(self, variant: Variant | Unavailable, tolerance: Tolerance, facts: ModelFacts) -> ComparisonResult:
        if isinstance(variant, Unavailable):
            return ComparisonResult(
                variant.label, None, ComparisonVerdict.SKIPPED, reason=f"not available here: {variant.reason}"
            )
        other = self._run(variant)
        if other.problem:
            return self._failed(variant, other)
        reference = self.runs.get(variant.reference)
        if reference is None or reference.problem:
            reason = f"there is nothing to compare it with: {variant.reference} failed"
            return ComparisonResult(variant.label, variant.reference, ComparisonVerdict.SKIPPED, reason=reason)
        left = _unmet_request(variant, ModelFacts.of(other.recordings[0].facts["models"]), other)
        if left:
            return ComparisonResult(
                variant.label, variant.reference, ComparisonVerdict.SKIPPED, reason=f"not available here: {left}"
            )
        if variant.versus == "precision":
            tolerance = Tolerance(max(tolerance.least, HALF), half=True)
        if variant.compression != "none" and self.spec.tolerance is None:
            tolerance = tolerance.compressed()
        comparison = compare(reference.recordings[0], other.recordings, tolerance)
        return judged(variant, comparison, facts)

    def _run(self, variant: Variant) -> RecordedRun:
        raise_if_interrupted(self.signals)
        self.tell(f"running {self.spec.name} for {self.spec.steps} steps: {variant.label}")
        done = run_variant(self.spec, variant, self.folder.path)
        if done.code in STOPPED:
            raise Interrupted(done.code)
        self.runs[variant.label] = done
        return done

    def _failed(self, variant: Variant, other: RecordedRun) -> ComparisonResult:
        self.folder.keep()
        reason = f"{other.problem}; its run directory is kept in {self.folder.path}"
        code = other.code or WorkerFailedError.exit_code
        reference = None if variant is REFERENCE else variant.reference
        return ComparisonResult(variant.label, reference, ComparisonVerdict.FAILED, reason=reason, code=code)


def _is_without_numbers(recording: Recording) -> bool:
    """Returns whether no step has a loss that is a number: then it could be no other either."""
    losses = [moment.values["loss"] for moment in recording.moments if "loss" in moment.values]
    return bool(losses) and not any(map(math.isfinite, losses))


def _nothing_to_compare() -> ComparisonResult:
    reason = (
        "the loss is NaN or infinite after each step, on any number of replicas. Expected one that shows what is "
        "computed. Lower the learning rate, or look at the data and the loss"
    )
    return ComparisonResult(REFERENCE.label, None, ComparisonVerdict.FAILED, reason=reason, code=DIFFERS)


def _unmet_request(variant: Variant, facts: ModelFacts, other: RecordedRun) -> str | None:
    """The request that a run did not meet, because the target itself decides it; None when it met all."""
    models = other.recordings[0].facts["models"]
    if variant.precision == "float32" and facts.half:
        return "layers of the target name a 16-bit dtype of their own."
    if variant.jit_compile and not all(model["jit_compile"] for model in models):
        return "Keras does not compile this model with XLA."
    return None
