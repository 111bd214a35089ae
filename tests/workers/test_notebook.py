"""`notebook_launcher` in real kernels: the page on notebooks, the numbers of one worker, failures, interrupts, ends."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jupyter_client import BlockingKernelClient, KernelManager

from tests.helpers.pages import DOCS
from tests.helpers.processes import processes_with
from tests.helpers.waiting import until
from tests.helpers.warm_workers import warm

BOUND = 120  # seconds a cell
END_SECONDS = 60.0

SETUP = """
import os, time
import keras, numpy as np, tensorflow as tf
import tfdist
x = np.random.default_rng(0).standard_normal((65, 8))
y = np.random.default_rng(1).integers(0, 3, 65)

class Said(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        print("a batch is done", flush=True)

def forever():
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(x, y, batch_size=16, epochs=1000000, verbose=0, callbacks=[Said()])
"""


@dataclass
class Cell:
    """What came of a cell.

    Attributes:
        printed: On stdout and stderr.
        value: Of its last expression, as it is shown.
        error: Name and text of what it raised.
    """

    printed: str = ""
    value: str = ""
    error: tuple[str, str] | None = None


@dataclass
class Kernel:
    """A kernel with its client, in a folder of its own."""

    manager: KernelManager
    client: BlockingKernelClient
    variable: str

    def run(self, code: str, printed: Callable[[str], None] = lambda text: None) -> Cell:
        """Runs a cell; `printed` hears what it prints, so far."""
        cell = Cell()

        def hear(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                cell.printed += content["text"]
                printed(cell.printed)
            elif message["msg_type"] == "execute_result":
                cell.value = content["data"]["text/plain"]
            elif message["msg_type"] == "error":
                cell.error = content["ename"], content["evalue"]

        self.client.execute_interactive(code, timeout=BOUND, output_hook=hear)
        return cell


@contextlib.contextmanager
def kernel_in(folder: Path) -> Iterator[Kernel]:
    variable = f"TFDIST_TEST_KERNEL={uuid.uuid4()}"
    name, _, value = variable.partition("=")
    manager = KernelManager(kernel_name="python3")
    environ = warm({**os.environ, name: value, "TF_CPP_MIN_LOG_LEVEL": "3"})
    manager.start_kernel(cwd=str(folder), env=environ)
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=BOUND)
        yield Kernel(manager, client, variable)
    finally:
        client.stop_channels()
        if manager.has_kernel:
            manager.shutdown_kernel(now=True)
        wait_for_end(variable)


def wait_for_end(variable: str) -> None:
    """Waits until no process is left that the kernel has started, for a bounded time."""
    until(lambda: not processes_with(variable), END_SECONDS, "processes outlive the kernel")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with kernel_in(tmp_path_factory.mktemp("notebook")) as kernel:
        assert kernel.run(SETUP).error is None
        yield kernel


def test_the_page_on_notebooks_runs(kernel: Kernel) -> None:
    cells = re.findall(r"^```python\n(.*?)^```$", (DOCS / "notebooks.md").read_text(), re.MULTILINE | re.DOTALL)
    ran = [kernel.run(cell) for cell in cells]
    assert [cell.error for cell in ran] == [None, None, None]
    assert "2 workers, 2 replicas" in ran[1].printed
    assert "Epoch 3/3" in ran[1].printed
    assert kernel.run("np.isfinite(history['loss']).all() and len(history['loss'])").value == "3"


@pytest.mark.slow
def test_numbers_of_one_worker_with_what_the_notebook_has_defined_and_set(kernel: Kernel) -> None:
    """A registered class that is saved and loaded, a converted loop, a dtype policy: as in the notebook itself."""
    code = """
keras.config.set_dtype_policy("float64")  # Keras's losses stay float32

@keras.saving.register_keras_serializable("mine")
class Scaled(keras.layers.Layer):
    def call(self, inputs):
        return inputs * 0.5

@tf.function
def halvings(value):
    count = tf.constant(0)
    while value > 1:
        value, count = value / 2, count + 1
    return count

def train(path):
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8, "tanh"), keras.layers.Dropout(0.3), Scaled(),
                              keras.layers.BatchNormalization(), keras.layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(x, y, batch_size=16, epochs=2, verbose=0)
    model.save(path)
    model = keras.saving.load_model(path)
    return history.history["loss"], model.get_weights(), model.compute_dtype, int(halvings(tf.constant(8.0)))

os.environ["TFDIST_EMULATE_GPUS"] = "count=2"
two = tfdist.notebook_launcher(train, ["two.keras"])
del os.environ["TFDIST_EMULATE_GPUS"]
one = train("one.keras")
keras.config.set_dtype_policy("float32")
[np.allclose(two[0], one[0], rtol=1e-6), all(map(np.allclose, two[1], one[1])), two[2:]]
"""
    cell = kernel.run(code)
    assert cell.error is None
    assert cell.value == "[True, True, ('float64', 3)]"
    assert "tfdist: one worker on each of 2 GPUs; nproc=1 runs one process on all of them" in cell.printed


def test_a_failure_is_raised_with_its_worker_and_the_line_of_the_cell(kernel: Kernel) -> None:
    code = """
def fail():
    if tfdist.worker_index() == 1:
        raise ValueError("a mistake")
    tfdist.barrier()

tfdist.notebook_launcher(fail, nproc=2, quiet=True)
"""
    cell = kernel.run(code)
    assert cell.error is not None
    name, text = cell.error
    assert name == "WorkerFailedError"
    assert text.startswith("worker 1 ")
    assert "ValueError: a mistake" in text
    assert ', in fail\n      raise ValueError("a mistake")' in text
    assert "call_in_worker" not in text
    assert "a mistake" not in cell.printed


def test_a_function_that_ends_its_worker_has_not_returned(kernel: Kernel) -> None:
    cell = kernel.run("tfdist.notebook_launcher(os._exit, [0], quiet=True)")
    assert cell.error is not None
    name, text = cell.error
    assert name == "WorkerFailedError"
    assert "The function ended its worker by" in text


def test_what_cannot_be_handed_on_is_named_before_anything_starts(kernel: Kernel) -> None:
    cell = kernel.run("""
dataset = tf.data.Dataset.range(3)
def count():
    return len(list(dataset))
tfdist.notebook_launcher(count, nproc=2)
""")
    assert cell.error is not None
    name, text = cell.error
    assert name == "UsageError"
    assert "dataset cannot be pickled" in text
    assert cell.printed == ""


def test_an_interrupt_of_the_cell_ends_the_workers(kernel: Kernel) -> None:
    interrupted: list[str] = []

    def interrupt(printed: str) -> None:
        if "a batch is done" in printed and not interrupted:
            interrupted.append(printed)
            kernel.manager.interrupt_kernel()

    cell = kernel.run("tfdist.notebook_launcher(forever, nproc=2)", interrupt)
    assert interrupted
    assert cell.error == ("KeyboardInterrupt", "the workers have ended")
    assert "stopped between two batches" in cell.printed
    assert len(processes_with(kernel.variable)) == 1  # the kernel


@pytest.mark.slow
def test_workers_end_with_their_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with kernel_in(tmp_path) as kernel:
        assert kernel.run(SETUP).error is None
        kernel.client.execute("tfdist.notebook_launcher(forever, nproc=2)")
        while "a batch is done" not in kernel.client.get_iopub_msg(timeout=BOUND)["content"].get("text", ""):
            pass
        assert len(processes_with(kernel.variable)) >= 4  # the kernel, the launcher, two workers
        assert list(temporary.iterdir())
        kernel.manager.shutdown_kernel(now=True)
        wait_for_end(kernel.variable)
    assert [path.name for path in temporary.iterdir() if "tfdist-notebook" in path.name] == []
