"""`tfdist evaluate`: prints a model's metrics on some data, as one device has them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import click

from tfdist.cli import common_options as shared
from tfdist.cli.inference.inference_options import inference_options, run_inference_verb
from tfdist.cli.verb import Verb


@click.command(cls=Verb)
@inference_options
@shared.as_json("Print the metrics as JSON; null stands for NaN and infinity.")
@click.pass_context
def evaluate(ctx: click.Context, /, as_json: bool, **options: Any) -> None:
    """Prints a model's loss and metrics on some data: over all workers, and the numbers of one device.

    The model is that of a run, by default the newest in ./runs, or any MODEL.keras that was compiled before it was
    saved. The run of a script has no word of data: give them with --data.
    """
    outcome = run_inference_verb("evaluate", options)
    if outcome.result is not None:
        click.echo(_json(outcome.result) if as_json else _said(outcome.result))
    ctx.exit(outcome.code)


def _said(result: Any) -> str:
    from tfdist.text import format_count, format_duration

    width = max(map(len, result["metrics"]), default=0)
    lines = [f"{name:<{width}}  {result['metrics'][name]:.6g}" for name in _losses_first(result["metrics"])]
    return "\n".join([*lines, f"{format_count(result['samples'], 'sample')} in {format_duration(result['seconds'])}"])


def _losses_first(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: not name.endswith("loss"))


def _json(result: Any) -> str:
    numbers = result["metrics"]
    metrics = {name: numbers[name] if math.isfinite(numbers[name]) else None for name in _losses_first(numbers)}
    return json.dumps({"samples": result["samples"], "seconds": result["seconds"], "metrics": metrics}, indent=2)
