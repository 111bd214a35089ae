"""The jobs of a pruning: the fine-tuning, and the measurement of what it has come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfdist.checkpoint.inspection.model_choice import ModelChoice
from tfdist.cluster.membership import Membership
from tfdist.inference.data_choice import DataChoice
from tfdist.inference.inference_job import InferenceOutcome, run_inference_job
from tfdist.inference.pruning import fine_tuning_run
from tfdist.inference.pruning.fine_tuning_config import PruningChoice, fine_tuning_config
from tfdist.training.inference_request import PruningRequest

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
    run = fine_tuning_run.run_dir_of(Path(request.path))
    tuning = fine_tuning_config(model.config, model.file, asked)
    if membership.has_chief:
        fine_tuning_run.prepare(run, tuning, overwrite=overwrite)
    code = fine_tuning_run.fine_tune(
        run, tuning, model.document, membership, target=model.file, is_silent=is_silent, grace=grace, **options
    )
    if code:
        return InferenceOutcome(code)
    outcome = run_inference_job(
        "prune", model, data, membership, modules=modules, pruning=request, grace=_GRACE_SECONDS, **options
    )
    if outcome.result is not None and outcome.result["held"]:
        fine_tuning_run.keep_report(run, outcome.result)
    return outcome
