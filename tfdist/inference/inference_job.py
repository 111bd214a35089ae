"""The job of an inference: its workers, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfdist.checkpoint.inspection.model_choice import ModelChoice
from tfdist.cluster.membership import Membership
from tfdist.config.load import source_to_dict
from tfdist.errors import RunDirError
from tfdist.inference import fine_tuning
from tfdist.inference.data_choice import DataChoice
from tfdist.inference.fine_tuning import PruningChoice, fine_tuning_config
from tfdist.launch.job import run_to_result, say_report
from tfdist.launch.job_spec import JobSpec
from tfdist.rundir.regular_files import read_json
from tfdist.training.inference_request import (
    RESULT_FILE,
    InferenceRequest,
    PredictionRequest,
    PruningRequest,
    QuantizationRequest,
    Verb,
)
from tfdist.verify.runs import STOPPED, open_folder


@dataclass(frozen=True)
class InferenceOutcome:
    """The outcome of an inference: how it ended.

    Attributes:
        code: The exit code of the job.
        result: What the chief has said of it; None where it failed, or where the chief is on another machine.
    """

    code: int
    result: Mapping[str, Any] | None = None


def run_inference_job(
    verb: Verb,
    model: ModelChoice,
    data: DataChoice,
    membership: Membership,
    *,
    modules: tuple[str, ...] = (),
    prediction: PredictionRequest | None = None,
    quantization: QuantizationRequest | None = None,
    pruning: PruningRequest | None = None,
    **options: Any,
) -> InferenceOutcome:
    """Runs the workers of this machine to their end.

    Args:
        verb: What they do.
        model: By which model.
        data: On which samples.
        membership: The workers.
        modules: What they import first.
        prediction: Where predictions go; None without any.
        quantization: What is quantized; None without one.
        pruning: What is measured beside the model; None without any.
        **options: What else `JobSpec` takes.

    Raises:
        TfdistError: The job could not be started.
    """
    request = InferenceRequest(
        verb,
        model.file,
        model.is_whole,
        model.shown,
        source_to_dict(data.section),
        data.key,
        data.batch_size,
        modules,
        prediction,
        quantization,
        pruning,
    )
    with open_folder(None, verb) as folder:
        run_dir = folder.path / "run"
        code = _run(_job(model, request, membership, run_dir, options))
        if code and code not in STOPPED:
            folder.keep()  # for the logs that the report of the failure names
        if code or not membership.has_chief:
            return InferenceOutcome(code)
        return InferenceOutcome(code, _result(run_dir / RESULT_FILE))


def _run(spec: JobSpec) -> int:
    result = run_to_result(spec)
    # How workers stopped matters to a training alone, whose checkpoint is of one step.
    say_report(spec, result if result.stop is None else replace(result, advice=""))
    return result.code


def _job(
    model: ModelChoice, request: InferenceRequest, membership: Membership, run_dir: Path, options: dict[str, Any]
) -> JobSpec:
    config = model.config
    if config is not None:
        of_config = {
            "batch_norm": config.batch_norm,
            "kernels": config.kernels,
            "logical_devices": config.devices.logical,
            "memory_limit": config.devices.memory_limit,
            "seed": config.seed,
        }
        options = {**of_config, **{name: value for name, value in options.items() if value is not None}}
        options["share_gpu"] = options.get("share_gpu", False) or config.devices.share_gpu
    else:
        options = {name: value for name, value in options.items() if value is not None}
    return JobSpec(
        membership=membership,
        target_kind="inference",
        target=model.file,
        name=request.verb,
        args=(request.to_argument(),),
        config=config,
        document=model.document,
        run_dir=str(run_dir),
        **options,
    )


def _result(file: Path) -> Mapping[str, Any]:
    try:
        result = read_json(file)
        if not isinstance(result, dict):
            raise ValueError("it is no object")
    except (OSError, ValueError) as error:
        raise RunDirError(f"{file} does not say what came of the job: {error}. Run the command again.") from error
    return result


_GRACE_SECONDS = 5.0
"""Seconds that workers that measure may take to end when asked to; nothing of that is kept."""


def run_pruning(
    asked: PruningChoice,
    request: PruningRequest,
    model: ModelChoice,
    data: DataChoice,
    membership: Membership,
    *,
    overwrite: bool,
    is_silent: bool,
    grace: float,
    modules: tuple[str, ...] = (),
    **options: Any,
) -> InferenceOutcome:
    """Runs the workers of this machine: they fine-tune, from where an earlier start was stopped, and measure.

    Args:
        asked: How the model is pruned.
        request: What is measured then.
        model: The model, with its config.
        data: On which samples it is measured.
        membership: The workers.
        overwrite: Whether another run in the run directory is replaced.
        is_silent: Whether stdout is for something else.
        grace: Seconds that the training has to stop at a step boundary.
        modules: What is imported before the model is measured.
        **options: What else `JobSpec` takes.

    Raises:
        TfdistError: A job could not be started.
    """
    assert model.config is not None, "`with_config` sees to it"
    run = fine_tuning.run_dir_of(Path(request.path))
    tuning = fine_tuning_config(model.config, model.file, asked)
    if membership.has_chief:
        fine_tuning.prepare(run, tuning, overwrite=overwrite)
    code = fine_tuning.fine_tune(
        run, tuning, model.document, membership, target=model.file, is_silent=is_silent, grace=grace, **options
    )
    if code:
        return InferenceOutcome(code)
    outcome = run_inference_job(
        "prune", model, data, membership, modules=modules, pruning=request, grace=_GRACE_SECONDS, **options
    )
    if outcome.result is not None and outcome.result["held"]:
        fine_tuning.keep_report(run, outcome.result)
    return outcome
