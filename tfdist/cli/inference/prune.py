"""`tfdist prune`: fine-tunes a model while its smallest weights are taken away, and says what that costs."""

from __future__ import annotations

import json
from typing import Any

import click

from tfdist.cli import common_options as shared
from tfdist.cli.inference.inference_options import choose_inputs, inference_options
from tfdist.cli.verb import Verb


@click.command(cls=Verb)
@inference_options
@click.option(
    "--sparsity", type=float, metavar="SHARE", help="The share of each layer that is pruned: 0.8; a pattern needs none."
)
@click.option(
    "--structure",
    default="unstructured",
    show_default=True,
    metavar="STRUCTURE",
    help="What is pruned: unstructured (single weights), a pattern such as 2:4 (2 of each 4 stay), or channels.",
)
@shared.count("--epochs", "How long it is fine-tuned.", "as in the config")
@click.option("--layer", "layers", multiple=True, metavar="NAME", help="Prune only this layer; repeatable.")
@click.option("--skip", multiple=True, metavar="NAME", help="Leave a layer as it is; repeatable.")
@click.option(
    "--config",
    metavar="CONFIG.yaml",
    type=shared.LocalPath(),
    help="For a MODEL.keras: the config whose data, compile and fit it is fine-tuned by.",
)
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    type=shared.LocalPath(),
    show_default="RUN_DIR/pruned.keras",
    help="The file to make.",
)
@click.option("--overwrite", is_flag=True, help="Replace OUT, and the run that led to it.")
@click.option(
    "--max-drop",
    metavar="DROP",
    help="How much worse the metric may become: 0.5% of what the model has, or 0.005. Beyond it nothing is made, and "
    "the exit code is 6.",
)
@click.option("--metric", metavar="NAME", show_default="accuracy or its kin, else the loss", help="What to judge by.")
@shared.seconds("--grace", 30, "How long the workers may take to stop at a step boundary when asked to.")
@shared.as_json("Print what was measured as JSON.")
@click.pass_context
def prune(
    ctx: click.Context,
    /,
    sparsity: float | None,
    structure: str,
    epochs: int | None,
    layers: tuple[str, ...],
    skip: tuple[str, ...],
    config: str | None,
    output: str | None,
    overwrite: bool,
    max_drop: str | None,
    metric: str | None,
    grace: float,
    as_json: bool,
    **options: Any,
) -> None:
    """Prunes a trained model while it is fine-tuned, and measures what that costs in accuracy.

    The model is that of a run from a config, whose data it is fine-tuned on, or any MODEL.keras with --config. It is
    measured before and after on the validation data, over all workers. Killed, the same command goes on where it was.
    """
    # Imported here: `--help` does not need it.
    from tfdist.inference.comparison_table import EXCEEDED
    from tfdist.inference.fine_tuning import PruningChoice, run_dir_of, with_config
    from tfdist.inference.inference_job import run_pruning
    from tfdist.inference.output_choice import choose_pruned_output
    from tfdist.inference.pruning_table import render
    from tfdist.training.inference_request import PruningRequest
    from tfdist.training.quantization.layer_choice import DropBudget

    asked = PruningChoice(structure, sparsity, epochs, layers, skip)
    if max_drop is not None:
        DropBudget.of(max_drop)
    path = choose_pruned_output(output, options["model"], overwrite=overwrite)
    request = PruningRequest(str(path), str(run_dir_of(path).model_file), structure, max_drop, metric)
    overrides, modules = options["overrides"], options["modules"]
    inputs = choose_inputs(
        options, lambda chosen: with_config(chosen, config, overrides, modules), sets_file=config is not None
    )
    options |= {"overwrite": overwrite, "is_silent": as_json, "grace": grace}
    outcome = run_pruning(asked, request, inputs.model, inputs.data, inputs.membership, **options)
    result = outcome.result
    if result is None:
        ctx.exit(outcome.code)
    click.echo(json.dumps(result, indent=2) if as_json else render(result))
    ctx.exit(0 if result["held"] else EXCEEDED)
