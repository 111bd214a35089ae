"""`tfdist export`: writes a model for a server or a device, and compares it there with Keras."""

from __future__ import annotations

import json
from typing import Any

import click

from tfdist.cli import common_options as shared
from tfdist.cli.default_arguments import run_argument
from tfdist.cli.verb import Verb

_FORMATS = ["savedmodel", "onnx", "litert", "litert-int8", "litert-int16x8", "openvino", "tensorrt"]
_SAMPLES, _SAMPLES_IN_INTEGERS = 256, 2048


@click.command(cls=Verb)
@run_argument("model", "[RUN_DIR|MODEL.keras]")
@click.option("--format", "form", required=True, type=click.Choice(_FORMATS), help="What is written.")
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    type=shared.LocalPath(),
    show_default="the model's name with the format's ending, in this directory",
    help="The file or folder to make.",
)
@click.option(
    "--checkpoint",
    metavar="NAME",
    show_default="the trained model, or before there is one the latest checkpoint",
    help="Of a run: best, latest, a checkpoint's name or its step.",
)
@click.option(
    "--input-signature",
    "signature",
    multiple=True,
    metavar="[NAME=]DTYPE:DIMS",
    help="An input, with the batch as the first of DIMS: image=float32:None,28,28,1; repeatable. Needed where the "
    "model does not say what it takes, or to fix sizes.",
)
@click.option(
    "--data",
    metavar="DATA",
    show_default="validation; none for a MODEL.keras",
    help="What it is compared on: validation or train of the run's config, a YAML file as `tfdist predict` takes it, "
    "or none for samples that are made from the signature.",
)
@shared.count("--samples", "How many samples it is compared on, at most.", "256, or 2048 for integers")
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    metavar="T",
    show_default="1e-4; 1e-2 where layers compute in half precision",
    help="Up to which difference it is kept.",
)
@shared.count("--calibration", "Of litert-int8 and litert-int16x8: by how many samples ranges are chosen.", "512")
@click.option(
    "--calibration-data",
    metavar="DATA",
    show_default="those that the run was trained on, else those of --data",
    help="Of the same: by which, as --data.",
)
@click.option(
    "--max-drop",
    metavar="DROP",
    show_default="1%",
    help="Of the same: how much worse the metric may be, 0.5% of Keras's, or 0.005.",
)
@click.option(
    "--metric",
    metavar="NAME",
    show_default="accuracy or its kin, else the loss",
    help="Of the same: what to judge by.",
)
@click.option(
    "--model-version",
    "version",
    type=click.IntRange(min=1),
    metavar="N",
    show_default="1",
    help="The version's folder in OUT, of savedmodel and openvino; a new one may be added to an OUT that exists.",
)
@click.option(
    "--import",
    "modules",
    multiple=True,
    metavar="MODULE",
    help="Import a module first, as one that registers the layers of a MODEL.keras; repeatable.",
)
@shared.overrides
@shared.seconds("--timeout", 1800, "How long it may take in all.")
@click.option("--quiet", is_flag=True, help="Print nothing but warnings and errors.")
@shared.as_json("Print what came of it as JSON; null stands for NaN and infinity.")
@shared.tracebacks
@click.pass_context
def export(ctx: click.Context, /, model: str, form: str, output: str | None, **options: Any) -> None:
    """Writes a model for a server or a device, and compares it there with Keras.

    The model is that of a run, by default the newest in ./runs, or any MODEL.keras. What is written is loaded in its
    own runtime, in a process of its own, and run on samples of the run's validation data: the greatest difference, the
    labels that are the same, the size and the time a sample are printed. Beyond the tolerance the command exits with 6,
    and nothing is kept.
    """
    # Imported here: `--help` does not need it.
    from tfdist.checkpoint.inspection.model_choice import choose_model
    from tfdist.inference import export_table
    from tfdist.inference.calibration import choose_calibration
    from tfdist.inference.data_choice import choose_data
    from tfdist.inference.export_job import choose_target, request_of, run_export
    from tfdist.training.artifacts.artifact_formats import FORMATS
    from tfdist.training.export.export_request import parse_signature
    from tfdist.verify.runs import DIFFERS

    FORMATS[form].check_installed()
    signature = parse_signature(options["signature"])
    target = choose_target(output, model, FORMATS[form], options["version"])
    chosen = choose_model(model, options["checkpoint"], options["overrides"])
    asked = options["data"]
    is_made = asked == "none" or (asked is None and chosen.config is None)
    data = None if is_made else choose_data(asked, chosen.config, None)
    calibration = choose_calibration(FORMATS[form], options, chosen, data)
    quiet = options["quiet"]
    request = request_of(
        form,
        chosen,
        data,
        target,
        signature=signature,
        samples=options["samples"] or (_SAMPLES if calibration is None else _SAMPLES_IN_INTEGERS),
        tolerance=options["tolerance"],
        calibration=calibration,
        modules=options["modules"],
        seconds=options["timeout"],
    )

    def say(text: str) -> None:
        if not quiet:
            click.echo(f"export: {text}", err=True)

    result = run_export(request, target, say, verbose=options["verbose"])
    if options["as_json"]:
        click.echo(json.dumps({"output": target.shown, **export_table.to_json(result)}, indent=2))
    elif not quiet:
        click.echo(export_table.render(result, target.shown))
    if result["differs"]:
        click.echo(
            f"error: {export_table.excess(result)}. Nothing was kept as {target.shown}. "
            f"{export_table.next_step(result, FORMATS[form])}",
            err=True,
        )
        ctx.exit(DIFFERS)
