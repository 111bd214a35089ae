"""`tfdist data predict`: keeps what a model says of samples, for a distillation or any pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfdist.cli import common_options as shared
from tfdist.cli.inference.inference_options import InferenceInputs, inference_options, run_inference_verb
from tfdist.cli.inference.predict import allowed_restarts, part_samples, prediction_line, say_what_is_kept
from tfdist.cli.verb import Verb

if TYPE_CHECKING:
    from tfdist.training.inference_request import PredictionRequest


@click.command(cls=Verb)
@inference_options
@click.option("-o", "--output", required=True, metavar="DIR", type=shared.LocalPath(), help="The folder to make.")
@click.option(
    "--shards",
    type=click.IntRange(min=1, max=99999),
    metavar="N",
    show_default="files of about 128 MB",
    help="How many files.",
)
@click.option("--overwrite", is_flag=True, help="Replace kept outputs in DIR, and parts of others beside it.")
@part_samples
@allowed_restarts
@click.pass_context
def predict(
    ctx: click.Context, /, output: str, shards: int | None, overwrite: bool, part_samples: int | None, **options: Any
) -> None:
    """Keeps the outputs of a model for every sample of some data, over all workers, in a folder of TFRecord files.

    A config whose `fit.distill` has `teacher: {outputs: DIR}` learns from them, without the teacher, on the same data:
    give it with --data CONFIG.yaml:train. Records are in the order of the samples, and have the number of each, from 0,
    in `index` beside the outputs. Until DIR is whole, parts of it are kept in DIR.parts: the same command goes on
    behind them, on however many workers.
    """

    def prediction(inputs: InferenceInputs) -> PredictionRequest:
        from tfdist.inference.output_choice import choose_output_folder
        from tfdist.training.inference_request import PredictionRequest

        path = choose_output_folder(output, overwrite=overwrite)
        return PredictionRequest(str(path), "shards", overwrite, part_samples, shards)

    quiet, asked = options["quiet"], options["data"]
    outcome = run_inference_verb("predict", options, prediction=prediction)
    if outcome.code:
        say_what_is_kept(output)
    if outcome.result is not None and not quiet:
        click.echo(prediction_line(outcome.result, output))
        if asked is not None and Path(output).is_dir():
            teacher = f"{{outputs: {Path(output).absolute()}}}"
            click.echo(f"In a config with this data:\n\nfit:\n  distill: {{teacher: {teacher}}}")
    ctx.exit(outcome.code)
