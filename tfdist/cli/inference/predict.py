"""`tfdist predict`: predicts every sample of some data, over all workers, into one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfdist.cli import common_options as shared
from tfdist.cli.inference.inference_options import InferenceInputs, inference_options, run_inference_verb
from tfdist.cli.verb import Verb

if TYPE_CHECKING:
    from tfdist.training.inference_request import PredictionRequest


part_samples = shared.count("--part-samples", "Keep what is done after each N samples.", "about 32 MB, or 30 s")
allowed_restarts = click.option(
    "--max-restarts",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Restart all workers when one fails; they go on behind what is kept.",
)


@click.command(cls=Verb)
@inference_options
@click.option("-o", "--output", required=True, metavar="OUT", type=shared.LocalPath(), help="The file to make.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["npz", "tfrecord", "csv", "parquet"]),
    show_default="by its name: .npz, .tfrecord, .csv, .parquet",
    help="Of OUT.",
)
@click.option("--overwrite", is_flag=True, help="Replace OUT, and parts of other predictions beside it.")
@part_samples
@allowed_restarts
@click.pass_context
def predict(
    ctx: click.Context,
    /,
    output: str,
    form: str | None,
    overwrite: bool,
    part_samples: int | None,
    **options: Any,
) -> None:
    """Predicts every sample of some data once, in the order of the data, over all workers, into one file.

    The model is that of a run, by default the newest in ./runs, or any MODEL.keras. OUT has the number of each sample,
    from 0, in `index`, and an array or a column for each output of the model. Until it is whole, parts of it are kept
    in OUT.parts: the same command goes on behind them, on however many workers.
    """

    def prediction(inputs: InferenceInputs) -> PredictionRequest:
        from tfdist.inference.output_choice import choose_output
        from tfdist.training.inference_request import PredictionRequest

        path, chosen = choose_output(output, form, overwrite=overwrite)
        return PredictionRequest(str(path), chosen, overwrite, part_samples)

    quiet = options["quiet"]
    outcome = run_inference_verb("predict", options, prediction=prediction)
    if outcome.code:
        say_what_is_kept(output)
    if outcome.result is not None and not quiet:
        click.echo(prediction_line(outcome.result, output))
    ctx.exit(outcome.code)


def say_what_is_kept(output: str) -> None:
    """Says where the parts of an output are, where there are any."""
    parts = Path(f"{output}.parts")
    if any(parts.glob("part-*.npz")):
        click.echo(f"What is predicted already is kept in {parts}: the same command goes on behind it.", err=True)


def prediction_line(result: Any, output: str) -> str:
    """Returns what came of a prediction, in words."""
    from tfdist.text import format_bytes, format_count, format_duration

    predicted, seconds = result["predicted"], max(result["seconds"], 1e-9)
    now = "all" if predicted == result["samples"] else f"{predicted:,}"
    rate = f", {now} of them now in {format_duration(seconds)} ({predicted / seconds:,.0f}/s)" if predicted else ""
    made = f"{', '.join(result['outputs'])} in {output}, {format_bytes(result['bytes'])}"
    return "\n".join([f"{format_count(result['samples'], 'sample')}{rate}: {made}", *result["notes"]])
