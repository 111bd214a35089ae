"""Text of a config to start with: commented, and complete."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tfdist.config.yaml_document import Dumper
from tfdist.data.tools.starter.starter_data import StarterData
from tfdist.errors import UsageError

_MOST_BATCH = 128
_SMALLEST_IMAGE = 8


def starter_text(data: StarterData, dest: Path) -> str:
    """The config, in YAML with comments.

    Args:
        data: What was found.
        dest: Where the config will lie: paths below its folder are relative to it.
    """
    model, loss, metric = _model(data), _LOSSES[data.labels.kind], _METRICS[data.labels.kind]
    batch = min(_MOST_BATCH, 1 << max(0, (data.samples // 8).bit_length() - 1))
    head = f"# {data.samples:,} samples of the shape {list(data.shape)}, labels: {data.labels.words}."
    notes = "".join(f"  # {note}\n" for note in data.notes)
    return f"""\
{head}
#   tfdist config check {dest.name}     says what is wrong with it, before a run
#   tfdist train {dest.name}            trains it, on every GPU of this machine or its CPU
name: {_name(data)} # of its directory in runs/
seed: 1 # of the weights, the order of the samples and all else that is random

# Any function that returns a Keras model, by its dotted path, as my.module.build; args are its arguments.
model: {_flow(model)}

compile:
  # Clipping, gradient accumulation, weight decay are arguments of the optimizer: clipnorm, gradient_accumulation_steps.
  # A schedule: learning_rate: {{name: cosine_decay, initial_learning_rate: 0.001, decay_steps: 1000}}
  optimizer: {{name: adam, learning_rate: 0.001}}
  loss: {loss}
  metrics: [{metric}]

data:
  batch_size: {batch} # samples of one step, over all devices and workers
{notes}  train: {_source(data.train, dest)}
{_validation(data, dest)}
fit:
  epochs: 10
{_callbacks(data)}
precision: float32 # or mixed_bfloat16, mixed_float16: faster on GPUs
checkpoint: {{every_steps: 100, keep: 3}} # tfdist train --resume auto continues at the next step
"""


def write_new(dest: Path, text: str) -> None:
    """Writes a file that does not exist yet.

    Raises:
        UsageError: It exists, or cannot be written.
    """
    try:
        with dest.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _taken(dest) from None
    except OSError as error:
        raise UsageError(
            f"{dest} cannot be written: {error.strerror or error}. Expected a place in a directory that is there and "
            "that this user can write to."
        ) from error


def check_new(dest: Path) -> None:
    """Checks that a config may be written, before data is looked at for it.

    Raises:
        UsageError: It exists, or has no name of a config.
    """
    if dest.suffix.lower() not in (".yaml", ".yml"):
        raise UsageError(f"Expected the name of a config, such as tfdist.yaml. Received: {dest}")
    if os.path.lexists(dest):
        raise _taken(dest)


def _taken(dest: Path) -> UsageError:
    return UsageError(f"{dest} exists. Expected a name that is free: it is never replaced. Name another one.")


_LOSSES = {"classes": "sparse_categorical_crossentropy", "one_hot": "categorical_crossentropy", "numbers": "mse"}
_METRICS = {"classes": "accuracy", "one_hot": "accuracy", "numbers": "mae"}


def _name(data: StarterData) -> str:
    """A name for the run, after its data: that of the config, `tfdist` most often, says nothing in a list of runs."""
    source = Path(str(data.train["path"] if "path" in data.train else data.train["files"]))
    names = (re.sub(r"[^A-Za-z0-9._-]+", "-", part).strip("-._") for part in (source.stem, source.parent.name))
    return next((name for name in names if name not in ("", "train")), "run")


def _model(data: StarterData) -> dict[str, Any]:
    shape, labels = list(data.shape), data.labels
    if labels.kind == "numbers":
        return _built("tabular", inputs=shape, hidden=[64, 64], outputs=labels.size)
    if len(shape) == 3 and min(shape[:2]) >= _SMALLEST_IMAGE and shape[2] in (1, 3, 4):
        filters = [16, 32, 64] if min(shape[:2]) >= 4 * _SMALLEST_IMAGE else [16, 32]
        return _built("cnn", input_shape=shape, filters=filters, classes=labels.size)
    name = "tabular" if data.train["format"] == "csv" or data.train.get("stack") or math.prod(shape) < 8 else "mlp"
    return _built(name, inputs=shape, hidden=[64, 64], classes=labels.size)


def _built(name: str, **args: Any) -> dict[str, Any]:
    return {"build": f"tfdist.models.{name}", "args": args}


def _validation(data: StarterData, dest: Path) -> str:
    if data.validation is None:
        return "  # validation: other samples of the same form, to see how well it does on what it was not trained on\n"
    return f"  validation: {_source(data.validation, dest)}\n"


def _callbacks(data: StarterData) -> str:
    monitor = "" if data.validation is not None else ", monitor: loss"
    callback = f"{{name: early_stopping, patience: 3{monitor}}}"
    return f"  # callbacks: [{callback}] # or {{build: my.module.Callback, args: {{}}}}\n"


def _source(section: Mapping[str, Any], dest: Path) -> str:
    content = {name: _relative(value, dest) if name in ("path", "files") else value for name, value in section.items()}
    return _flow(content)


def _relative(path: str, dest: Path) -> str:
    folder = dest.absolute().parent
    absolute = os.path.abspath(path)
    return os.path.relpath(absolute, folder) if Path(absolute).is_relative_to(folder) else absolute


def _flow(content: Any) -> str:
    return yaml.dump(content, Dumper=Dumper, sort_keys=False, default_flow_style=True, width=1000).strip()
