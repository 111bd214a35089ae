"""`tfdist quantize`: makes a smaller model, and says what that costs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from tfdist.cli import common_options as shared
from tfdist.cli.inference.inference_options import InferenceInputs, inference_options, run_inference_verb
from tfdist.cli.verb import Verb

if TYPE_CHECKING:
    from tfdist.training.inference_request import QuantizationRequest


@click.command(cls=Verb)
@inference_options
@click.option(
    "--mode",
    type=click.Choice(["int8", "int4", "float8", "gptq", "awq"]),
    default="int8",
    show_default=True,
    help="How weights are kept: int8 (activations too, when the model runs), int4, or 4 or 8 bits that samples choose: "
    "gptq and awq; float8 is refused.",
)
@click.option("--bits", type=int, metavar="N", show_default="4", help="Of gptq: 4 or 8 bits a weight; awq has 4.")
@click.option(
    "--group-size",
    type=int,
    metavar="N",
    show_default="128",
    help="Of gptq and awq: how many inputs of an output have a scale together; -1 for all.",
)
@shared.count("--calibration", "Of gptq and awq: how many samples choose the weights.", "512")
@click.option(
    "--calibration-data",
    metavar="DATA",
    show_default="those that the run was trained on, else those of --data",
    help="Of gptq and awq: which, as --data.",
)
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    type=shared.LocalPath(),
    show_default="RUN_DIR/MODE.keras",
    help="The file to make.",
)
@click.option("--overwrite", is_flag=True, help="Replace OUT.")
@click.option(
    "--keep-float",
    multiple=True,
    metavar="LAYER",
    help="Leave a layer in float, by its path in the table; * stands for any letters; repeatable.",
)
@click.option("--sensitivity", is_flag=True, help="Measure each layer alone, too.")
@click.option(
    "--max-drop",
    metavar="DROP",
    help="How much worse the metric may become: 0.5% of what the float model has, or 0.005. Layers stay in float, the "
    "costliest first, until it is held; else nothing is made, and the exit code is 6.",
)
@click.option("--metric", metavar="NAME", show_default="accuracy or its kin, else the loss", help="What to judge by.")
@shared.as_json("Print what was measured as JSON.")
@click.pass_context
def quantize(
    ctx: click.Context,
    /,
    mode: str,
    output: str | None,
    overwrite: bool,
    keep_float: tuple[str, ...],
    sensitivity: bool,
    max_drop: str | None,
    metric: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Makes a model of 8 or 4 bits a weight, and measures what it costs in accuracy.

    gptq and awq read samples through the pipeline of the run's data, over all workers, and choose weights by them.

    The model is that of a run, by default the newest in ./runs, or any MODEL.keras that was compiled. It is measured
    before and after on the validation data of the run, over all workers, with the numbers of one device. OUT is a file
    that Keras loads.
    """
    from tfdist.inference.calibration import OPTIONS, check_options, choose_kernel_calibration
    from tfdist.inference.comparison_table import EXCEEDED
    from tfdist.inference.output_choice import choose_quantized_output
    from tfdist.inference.quantization_table import render
    from tfdist.training.inference_request import QuantizationRequest, check_mode
    from tfdist.training.quantization.layer_choice import DropBudget

    check_mode(mode)
    calibration = {name: options.pop(name) for name in OPTIONS}
    check_options(mode, calibration)
    if max_drop is not None:
        DropBudget.of(max_drop)
    model = options["model"]

    def quantization(inputs: InferenceInputs) -> QuantizationRequest:
        path = choose_quantized_output(output, model, mode, overwrite=overwrite)
        chosen = choose_kernel_calibration(mode, calibration, inputs.model, inputs.data)
        return QuantizationRequest(str(path), mode, keep_float, sensitivity, max_drop, metric, chosen)

    outcome = run_inference_verb("quantize", options, quantization=quantization)
    result = outcome.result
    if result is not None:
        click.echo(json.dumps(result, indent=2) if as_json else render(result))
        ctx.exit(0 if result["held"] else EXCEEDED)
    ctx.exit(outcome.code)
