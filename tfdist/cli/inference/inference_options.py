"""Options that `tfdist predict`, `evaluate`, `quantize` and `prune` share: the model, the data, the workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from tfdist.cli import common_options as shared
from tfdist.cli.default_arguments import run_argument

if TYPE_CHECKING:
    from tfdist.checkpoint.inspection.model_choice import ModelChoice
    from tfdist.cluster.membership import Membership
    from tfdist.config.schema import RunConfig
    from tfdist.inference.data_choice import DataChoice
    from tfdist.inference.inference_job import InferenceOutcome

_GRACE_SECONDS = 5.0
"""Seconds that workers may take to end when asked to; what is done is kept all the while."""

OPTIONS = (
    run_argument("model", "[RUN_DIR|MODEL.keras]"),
    click.option(
        "--checkpoint",
        metavar="NAME",
        show_default="the trained model, or before there is one the latest checkpoint",
        help="Of a run: best, latest, a checkpoint's name or its step.",
    ),
    click.option(
        "--data",
        metavar="DATA",
        show_default="validation",
        help="validation or train of the run's config; CONFIG.yaml for its data.validation, "
        "CONFIG.yaml:train; a YAML file with one section, as data.validation has it; or samples as `tfdist config "
        "init` takes them, such as digits.npz.",
    ),
    click.option("--x", metavar="NAME", show_default="by its name", help="The array of an .npz in --data that is x."),
    click.option(
        "--label",
        metavar="NAME",
        show_default="by its name",
        help="The array, column or feature in --data that is y.",
    ),
    shared.count("--batch-size", "Samples of a step over all replicas.", "as in the config, else 256"),
    click.option(
        "--import",
        "modules",
        multiple=True,
        metavar="MODULE",
        help="Import a module first, as one that registers the layers of a MODEL.keras; repeatable.",
    ),
    shared.overrides,
    click.option(
        "--workers", metavar="LIST", help="The whole cluster, the same on every host: host1:20000,host2:20000."
    ),
    click.option("--index", type=click.IntRange(min=0), metavar="I", help="Start entry I of the cluster only."),
    shared.count("--nproc", "Start N workers here, on free ports."),
    shared.devices,
    shared.count("--logical-devices", "Split each GPU, or the CPU when there is none, into N logical devices."),
    shared.memory_limit,
    shared.share_gpu,
    shared.communication,
    shared.jit,
    shared.kernels,
    click.option(
        "--start-timeout",
        type=shared.SecondsParam(),
        metavar="S",
        show_default="120; 900 in a pod of Kubernetes",
        help="How long the cluster may take to form.",
    ),
    shared.seconds("--first-step-timeout", 1800, "How long the first step, which compiles, may take."),
    shared.seconds("--step-timeout", 600, "How long the workers may make no progress."),
    shared.show("chief", "Whose output the terminal shows; the logs have all."),
    click.option("--quiet", is_flag=True, help="Say nothing of the work itself, only warnings and errors."),
    shared.verbose,
)


def inference_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the argument and the options of these verbs."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True)
class InferenceInputs:
    """The inputs of these verbs."""

    membership: Membership
    model: ModelChoice
    data: DataChoice


def choose_inputs(
    options: dict[str, Any],
    completed: Callable[[ModelChoice], ModelChoice] = lambda chosen: chosen,
    *,
    sets_file: bool = False,
) -> InferenceInputs:
    """Chooses workers, model and data, in this order, and takes their options out.

    Args:
        options: Those of `inference_options`.
        completed: Adds to the model what its data may come from.
        sets_file: Whether `--set` is for what `completed` adds, and not for the config of a run.
    """
    # Imported here: `--help` does not need it.
    from tfdist.checkpoint.inspection.model_choice import choose_model
    from tfdist.cluster.discover import discover
    from tfdist.cluster.kubernetes import start_seconds
    from tfdist.inference.data_choice import choose_data

    if options["start_timeout"] is None:
        options["start_timeout"] = start_seconds()
    membership = discover(options.pop("workers"), options.pop("index"), options.pop("nproc"))
    overrides = options.pop("overrides")
    chosen = choose_model(
        options.pop("model"),
        options.pop("checkpoint"),
        () if sets_file else overrides,
        is_here=membership.has_chief,
    )
    chosen = completed(chosen)
    data = choose_data(
        options.pop("data"), chosen.config, options.pop("batch_size"), options.pop("x"), options.pop("label")
    )
    return InferenceInputs(_chosen_workers(membership, chosen.config, options), chosen, data)


def _chosen_workers(membership: Membership, config: RunConfig | None, options: dict[str, Any]) -> Membership:
    """The workers: where nobody says how many, one for each GPU of this machine, which is said."""
    # Imported here: `--help` does not need it.
    from tfdist.launch.environment import count_gpus_here
    from tfdist.launch.gpus.worker_choice import choose_workers

    logical = options["logical_devices"]
    if logical is None and config is not None:
        logical = config.devices.logical
    choice = choose_workers(count_gpus_here, membership=membership, devices=options["devices"], logical=logical)
    if choice.text and not options["quiet"]:
        click.echo(f"tfdist: {choice.text}", err=True)
    options["worker_per_gpu"] = choice.workers != membership.num_workers
    return choice.membership(membership)


def run_inference_verb(
    verb: Any, options: dict[str, Any], **requests: Callable[[InferenceInputs], Any]
) -> InferenceOutcome:
    """Chooses model, data and output, in this order, and runs the workers.

    Args:
        verb: `predict`, `evaluate` or `quantize`.
        options: Those of `inference_options`, and what else `JobSpec` takes.
        **requests: `prediction` or `quantization`: returns the request of that, which is checked after workers, model
            and data, which it gets.
    """
    inputs = choose_inputs(options)
    # Imported here: `--help` does not need it.
    from tfdist.inference.inference_job import run_inference_job

    asked = {name: request(inputs) for name, request in requests.items()}
    return run_inference_job(
        verb, inputs.model, inputs.data, inputs.membership, grace=_GRACE_SECONDS, **asked, **options
    )
