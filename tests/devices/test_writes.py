"""What steps write into files is that of the global batch, once; what is tried out writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.util import event_pb2

from tests.devices.repair_removal import take_out
from tests.exactness.table import numbers
from tests.exactness.write_cases import Writing
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.coupling.trials.trial_scope import in_trial
from tfdist.keras_repairs.writes.write_functions import TAKING, WRITING, Operation, taking, writing

pytestmark = pytest.mark.usefixtures("repaired")

Emit = Callable[[Any, Any, Any], Any]
"""Of the samples, the loss and the number of the step."""


def summary(path: Path) -> Emit:
    return summary_of("loss", path, lambda x, loss: loss)


def summary_of_the_lowest(path: Path) -> Emit:
    """What is no mean over the samples: the step is run whole."""
    return summary_of("lowest", path, lambda x, loss: tf.sort(x[:, 0])[:1])


def summary_of(name: str, path: Path, value: Callable[[Any, Any], Any]) -> Emit:
    writer = tf.summary.create_file_writer(str(path))

    def emit(x: Any, loss: Any, step: Any) -> None:
        with writer.as_default():
            tf.summary.write(name, value(x, loss), step=tf.cast(tf.convert_to_tensor(step), tf.int64))

    return emit


def printed(path: Path) -> Emit:
    stream = f"file://{path}/print.txt"
    return lambda x, loss, step: tf.print(loss, step, output_stream=stream)


def file(path: Path) -> Emit:
    def emit(x: Any, loss: Any, step: Any) -> None:
        name = tf.strings.join([f"{path}/", tf.strings.as_string(tf.convert_to_tensor(step))])
        tf.io.write_file(name, tf.strings.as_string(tf.round(1e3 * loss)))

    return emit


def by_numpy(path: Path) -> Emit:
    def write(loss: Any) -> None:
        with (path / "losses.txt").open("a") as file:
            file.write(f"{float(loss):.3f}\n")

    return lambda x, loss, step: tf.numpy_function(write, [loss], [])


OPS = "tensorflow.python.ops"
KINDS: dict[str, tuple[Callable[[Path], Emit], tuple[str, ...]]] = {
    "summary": (summary, (f"{OPS}.summary_ops_v2.write",)),
    "summary of the lowest": (
        summary_of_the_lowest,
        (f"{OPS}.summary_ops_v2.write", f"{OPS}.gen_summary_ops.write_summary"),
    ),
    "print": (printed, ("tensorflow.print", f"{OPS}.logging_ops.print_v2", f"{OPS}.gen_logging_ops.print_v2")),
    "file": (file, (f"{OPS}.gen_io_ops.write_file",)),
    "numpy": (by_numpy, (f"{OPS}.script_ops.py_func_common",)),
}
"""How it is written, and the repairs that make it so."""

SOME = [kind if kind in ("summary", "file") else slow(kind) for kind in KINDS]


def written(kind: str, path: Path) -> list[Any]:
    """All that lies in a folder after a fit whose step writes into it."""
    path.mkdir()
    keras.utils.clear_session()
    keras.utils.set_random_seed(5)
    model = Writing(KINDS[kind][0](path))
    model.build((None, 6))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = numbers(65)
    model.fit(x.astype("float32"), y, batch_size=32, shuffle=False, verbose=0)
    return [line for file in sorted(path.iterdir()) for line in lines_of(file)]


def lines_of(file: Path) -> list[Any]:
    if "tfevents" not in file.name:
        lines = file.read_text().splitlines()
        return [(file.name, *(round(float(number), 4) for number in line.split())) for line in lines]
    events = [event_pb2.Event.FromString(record.numpy()) for record in tf.data.TFRecordDataset(str(file))]
    return [
        (event.step, value.tag, np.round(tf.make_ndarray(value.tensor), 4).tolist())
        for event in events
        for value in event.summary.value
    ]


@pytest.mark.parametrize("kind", SOME)
def test_written_once_of_the_global_batch(kind: str, tmp_path: Path) -> None:
    expected = written(kind, tmp_path / "one")
    assert len(expected) == 3
    with mirrored(3).scope():
        assert written(kind, tmp_path / "three") == expected


# A file that every replica writes has what the last one wrote, which may be the global batch's.
@pytest.mark.parametrize("kind", [kind for kind in SOME if kind != "file"])
def test_without_the_repair_other_things_are_written(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = written(kind, tmp_path / "one")
    for path in KINDS[kind][1]:
        take_out(path, monkeypatch)
    try:
        with mirrored(3).scope():
            received = written(kind, tmp_path / "three")
    except RuntimeError as error:
        # Of a scalar that the repair of the operation has summed on the replica that writes.
        received = [str(error)]
    assert received != expected


@pytest.mark.parametrize("operation", WRITING, ids=lambda operation: operation.name)
def test_an_operation_writes_nothing_in_a_trial(operation: Operation) -> None:
    calls: list[Any] = []
    repaired = writing(operation)(lambda *args: calls.append(args))
    in_trial(lambda: repaired("name", tf.constant(1.0)))
    assert calls == []
    repaired("name", 2)
    assert calls == [("name", 2)]


@pytest.mark.parametrize("operation", TAKING, ids=lambda operation: operation.name)
def test_nothing_is_taken_away_in_a_trial(operation: Operation) -> None:
    repaired = taking(operation)(lambda: 3)
    assert repaired() == 3
    with pytest.raises(UnsupportedError, match="elements out of a tf.queue"):
        in_trial(repaired)


def test_a_python_function_that_is_called_for_no_result_is_refused() -> None:
    def emit(x: Any, loss: Any, step: Any) -> None:
        tf.py_function(lambda value: value, [loss], tf.float32)

    x, y = numbers(8)
    with mirrored(3).scope():
        model = Writing(emit)
        model.build((None, 6))
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        with pytest.raises(UnsupportedError, match=r"Expected Tout=\[\]"):
            model.fit(x.astype("float32"), y, verbose=0)
