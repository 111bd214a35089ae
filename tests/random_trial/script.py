"""From a draw to the source of a script that knows nothing of replicas but in its last lines."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

from tests.random_trial.draw import INPUTS, Draw, Head, Part

_FLOATX = {"float64": "float64", "float32": "float32", "mixed_bfloat16": "float32"}

_HEAD = '''"""Random training {seed}."""

import json
import sys
import tempfile

import keras
import numpy as np
import tensorflow as tf

import tfdist
from tfdist import keras_repairs

layers, ops = keras.layers, keras.ops
SAMPLES, BATCH = {samples}, {batch}
FOLDER = tempfile.mkdtemp()
'''

_OUTCOME = """
    seeds = [v for v in model.variables if "seed_generator" in v.path]
    # In the middle of an accumulation each worker holds its part of the sum; a saved model has all of it.
    slots = [v for v in model.optimizer.variables if "gradient_accumulator" not in v.path]
    outcome = {
        "history": history.history,
        "weights": {f"{i}:{v.name}": np.asarray(v.numpy(), "float64") for i, v in enumerate(model.weights)},
        "optimizer": {str(i): np.asarray(v.numpy(), "float64") for i, v in enumerate(slots)},
        "seeds": {str(i): np.asarray(v.numpy()) for i, v in enumerate(seeds)},
    }
"""

_OF_DEVICES = """

if __name__ == "__main__":
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * {replicas})
    keras_repairs.install()
    one = run()
    with tfdist.strategy().scope():
        several = run()
    for a, b in zip(keras.tree.flatten_with_path(one), keras.tree.flatten_with_path(several), strict=True):
        np.testing.assert_allclose(b[1], a[1], {tolerance}, {tolerance}, err_msg=str(a[0]))
"""

_OF_WORKERS = """

if __name__ == "__main__":
    # tfdist train --nproc {replicas} SCRIPT several; tfdist train SCRIPT one; and compare several.0 with one.0
    worker = json.loads(__import__("os").environ.get("TF_CONFIG", "{{}}")).get("task", {{}}).get("index", 0)
    with open(f"{{sys.argv[1]}}.{{worker}}", "w") as file:
        json.dump(run(), file, default=lambda value: np.asarray(value).tolist())
"""

_TOLERANCE = {"float64": 1e-8, "float32": 1e-3, "mixed_bfloat16": 5e-2}
"""Relative and absolute: two to four digits above what rounding does in a training that is well conditioned."""


def tolerance_of(draw: Draw) -> float:
    """The largest difference, relative and absolute, that is none."""
    # TensorFlow computes the loss of transcripts in 32 bits, and Keras keeps the weights of LoRA in them.
    transcribes = any("CTC" in head.loss for head in draw.heads)
    has_lora = any("lora_rank" in layer for part in draw.parts for layer in part.makes)
    is_in_32_bits = draw.precision == "float64" and (transcribes or has_lora)
    return _TOLERANCE["float32" if is_in_32_bits else draw.precision]


def script_of(draw: Draw, nudge: tuple[float, int] | None = None) -> str:
    """The source: a function `run` that returns the training's numbers, and lines that compare.

    Args:
        draw: What it does.
        nudge: By which part of themselves weights are moved before the training, and the seed of the directions.
    """
    callbacks = [*draw.callbacks, *([f"Nudge({nudge[0]}, {nudge[1]})"] if nudge else [])]
    body = _run(draw, callbacks)
    footer = (_OF_WORKERS if draw.is_of_workers else _OF_DEVICES).format(
        replicas=draw.replicas, tolerance=tolerance_of(draw)
    )
    header = _HEAD.format(seed=draw.seed, samples=draw.samples, batch=draw.batch)
    return header + "".join(f"\n\n{own}\n" for own in _own_parts(body)) + f"\n\n{body}" + footer


@functools.cache
def _own_sources() -> dict[str, str]:
    files = ("own_parts.py", "own_metrics.py", "own_steps.py")
    sources = [Path(__file__).with_name(name).read_text(encoding="utf-8") for name in files]
    return {
        node.name: ast.get_source_segment(source, node) or ""
        for source in sources
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


def _own_parts(text: str) -> list[str]:
    """The sources of what the text names, in the order of the file."""
    sources, found = _own_sources(), set()
    more = {name for name in sources if re.search(rf"\b{name}\b", text)}
    while more - found:
        found |= more
        more = {name for name in sources for own in found if re.search(rf"\b{name}\b", sources[own])}
    return [source for name, source in sources.items() if name in found]


def _run(draw: Draw, callbacks: list[str]) -> str:
    y, w = _by_name(draw, "target"), _by_name(draw, "weight") if draw.heads[0].weight else "None"
    lines = [
        *_model(draw),
        "def run():",
        f'    keras.config.set_floatx("{_FLOATX[draw.precision]}")',
        f'    keras.config.set_dtype_policy("{draw.precision}")',
        "    keras.utils.set_random_seed(11)",
        f"    rng = np.random.default_rng({draw.seed})",
        f"    x = {INPUTS[draw.start][1]}",
        f"    y = {y}",
        f"    w = {w}",
        "    model = make_model()",
        *_compile(draw),
        *_feed(draw),
    ]
    options = [f"epochs={draw.epochs}", *(f"{name}={value}" for name, value in draw.fitted), "verbose=0"]
    if callbacks:
        options.append(f"callbacks=[{', '.join(callbacks)}]")
    lines.append(f"    history = model.fit({', '.join([_fed(draw), *options])})")
    text = "\n".join(lines) + _OUTCOME
    evaluated, predicted = _after(draw)
    text += f'    outcome["evaluate"] = model.evaluate({evaluated}, verbose=0, return_dict=True)\n'
    text += f'    outcome["predict"] = model.predict({predicted}, verbose=0)\n'
    return text + "    return outcome\n"


def _by_name(draw: Draw, what: str) -> str:
    if len(draw.heads) == 1:
        return str(getattr(draw.heads[0], what))
    return "{" + ", ".join(f'"{head.name}": {getattr(head, what)}' for head in draw.heads) + "}"


def _fed(draw: Draw) -> str:
    return "x, y, sample_weight=w, batch_size=BATCH" if draw.feed == "arrays" else "feed"


def _after(draw: Draw) -> tuple[str, str]:
    """What `evaluate` and `predict` are called with."""
    if draw.feed in ("arrays", "repeated", "generator", "shuffled"):
        return "x, y, sample_weight=w, batch_size=BATCH", "x, batch_size=BATCH"
    return "feed", "feed"


def _feed(draw: Draw) -> list[str]:
    weights = ", w" if draw.heads[0].weight else ""
    if draw.feed == "arrays":
        return []
    if draw.feed in ("generator", "py_dataset"):
        batches = f"Batches(BATCH, x, y{weights})"
        return [f"    feed = {batches if draw.feed == 'py_dataset' else f'forever({batches})'}"]
    dataset = f"tf.data.Dataset.from_tensor_slices((x, y{weights}))"
    made = {
        "dataset": f"{dataset}.batch(BATCH)",
        "shuffled": f"{dataset}.shuffle(50).batch(BATCH)",
        "dropped": f"{dataset}.batch(BATCH, drop_remainder=True)",
        "unknown": f"{dataset}.batch(BATCH).filter(lambda *parts: True)",
        "repeated": f"{dataset}.batch(BATCH).repeat()",
    }
    return [f"    feed = {made[draw.feed]}"]


def _compile(draw: Draw) -> list[str]:
    options = [f"optimizer={draw.optimizer}", f"loss={_of_heads(draw, 'loss')}"]
    if any(head.loss_weight != 1.0 for head in draw.heads):
        options.append(f"loss_weights={_of_heads(draw, 'loss_weight')}")
    for what in ("metrics", "weighted_metrics"):
        if any(getattr(head, what) for head in draw.heads):
            options.append(f"{what}={_of_heads(draw, what)}")
    options += [f"{name}={value}" for name, value in draw.compiled]
    return ["    model.compile(", *(f"        {option}," for option in options), "    )"]


def _of_heads(draw: Draw, what: str) -> str:
    def text(head: Head) -> str:
        value = getattr(head, what)
        return f"[{', '.join(value)}]" if isinstance(value, tuple) else str(value)

    if len(draw.heads) == 1:
        return text(draw.heads[0])
    return "{" + ", ".join(f'"{head.name}": {text(head)}' for head in draw.heads) + "}"


def _model(draw: Draw) -> list[str]:
    """The source of `make_model`."""
    if draw.form == "sequential":
        made = [layer for part in (*draw.parts, draw.heads[0].part) for layer in part.makes]
        inputs = [INPUTS[draw.start][0], *made]
        return ["def make_model():", "    return keras.Sequential(", "        [",
                *(f"            {layer}," for layer in inputs), "        ]", "    )", "", ""]  # fmt: skip
    owner = "self." if draw.form == "subclassed" else ""
    makes, calls = _lines(draw, owner)
    if draw.form == "subclassed":
        return ["class Model(keras.Model):", "    def __init__(self):", "        super().__init__()",
                *(f"        {line}" for line in makes), "", "    def call(self, x):",
                *(f"        {line}" for line in calls), f"        return {_outputs(draw)}", "", "",
                "def make_model():", "    return Model()", "", ""]  # fmt: skip
    kind = draw.step if draw.form == "own_step" else "keras.Model"
    return ["def make_model():", f"    inputs = x = {INPUTS[draw.start][0]}", *(f"    {line}" for line in makes),
            *(f"    {line}" for line in calls), f"    return {kind}(inputs, {_outputs(draw)})", "", ""]  # fmt: skip


def _lines(draw: Draw, owner: str) -> tuple[list[str], list[str]]:
    """Statements that make the layers, and statements that call them."""
    makes, calls = [], []
    for number, (target, part) in enumerate(
        [*(("x", part) for part in draw.parts), *((head.name, head.part) for head in draw.heads)]
    ):
        names = [f"{owner}layer_{number}_{index}" for index in range(len(part.makes))]
        makes += [f"{name} = {made}" for name, made in zip(names, part.makes, strict=True)]
        calls.append(f"{target} = {_called(part, names)}")
    return makes, calls


def _called(part: Part, names: list[str]) -> str:
    return part.call.format(*names, x="x")


def _outputs(draw: Draw) -> str:
    if len(draw.heads) == 1:
        return draw.heads[0].name
    return "{" + ", ".join(f'"{head.name}": {head.name}' for head in draw.heads) + "}"
