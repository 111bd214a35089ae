"""The runtimes of artefacts, and how long a call takes in them: each opens one, and returns a function by names.

Inputs and outputs are arrays [samples, ...]; texts are arrays of bytes. Each uses all cores that this process may use.
"""

from __future__ import annotations

import importlib.metadata
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Arrays: TypeAlias = Mapping[str, NDArray]
"""Name -> [samples, ...]."""

_SECONDS = 1.0
_LEAST_CALLS, _MOST_CALLS = 5, 300


@dataclass(frozen=True)
class CallTimes:
    """Seconds a sample, the median of many calls.

    Attributes:
        one: One sample at a time; None where the batch size is fixed.
        batch: In batches of `batch_size`.
        batch_size: Samples of a batch.
    """

    one: float | None
    batch: float
    batch_size: int


def take_times(call: Callable[[Arrays], Any], inputs: Arrays, batch_size: int, *, is_fixed: bool) -> CallTimes:
    """Measures a call, for about a second each way.

    Args:
        call: Takes a batch by name.
        inputs: At least `batch_size` samples.
        batch_size: Samples of a batch.
        is_fixed: Whether it takes no other number of samples.
    """
    one = None if is_fixed or batch_size == 1 else _median(lambda: call(rows(inputs, 0, 1)))
    batch = _median(lambda: call(rows(inputs, 0, batch_size))) / batch_size
    return CallTimes(batch if batch_size == 1 and not is_fixed else one, batch, batch_size)


def rows(arrays: Arrays, begin: int, end: int) -> dict[str, NDArray]:
    """The samples from `begin` up to `end` of each array."""
    return {name: array[begin:end] for name, array in arrays.items()}


def batches_of(inputs: Arrays, batch_size: int) -> Sequence[dict[str, NDArray]]:
    """All samples in batches; the last may be smaller."""
    samples = len(next(iter(inputs.values())))
    return [rows(inputs, begin, begin + batch_size) for begin in range(0, samples, batch_size)]


def _median(call: Callable[[], Any]) -> float:
    call()  # what is set up by the first call of a size is no part of it
    taken: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(taken) < _LEAST_CALLS or (time.perf_counter() < end and len(taken) < _MOST_CALLS):
        begun = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


_TENSORFLOWS = "TensorFlow Lite"

Call = Callable[[Mapping[str, NDArray]], Mapping[str, NDArray]]

SIGNATURE = "serving_default"
"""The signature that servers call."""


class Opened(NamedTuple):
    """An artefact that is loaded.

    Attributes:
        call: Runs it.
        runtime: What runs it, with its version.
    """

    call: Call
    runtime: str


def open_artifact(runtime: str, path: Path) -> Opened:
    """Loads an artefact in its runtime, a key of `RUNTIME_NAMES`. What the runtime raises is passed on."""
    return _OPEN[runtime](path)


def _saved_model(path: Path) -> Opened:
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")
    signature = tf.saved_model.load(str(path)).signatures[SIGNATURE]

    def call(inputs: Mapping[str, NDArray]) -> Mapping[str, NDArray]:
        outputs = signature(**{name: tf.constant(value) for name, value in inputs.items()})
        return {name: _array(tf, value) for name, value in outputs.items()}

    return Opened(call, f"TensorFlow {tf.__version__}")


def _array(tf: Any, value: Any) -> NDArray:
    array: NDArray = (tf.cast(value, tf.float32) if value.dtype == tf.bfloat16 else value).numpy()
    return array.astype(np.bytes_) if array.dtype.hasobject else array


def _onnx(path: Path) -> Opened:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _cores()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def call(inputs: Mapping[str, NDArray]) -> Mapping[str, NDArray]:
        fed = {name: _texts(array) if array.dtype.kind == "S" else array for name, array in inputs.items()}
        return {name: _bytes(array) for name, array in zip(names, session.run(names, fed), strict=True)}

    return Opened(call, f"ONNX Runtime {onnxruntime.__version__}")


def _texts(array: NDArray) -> NDArray:
    return np.char.decode(array, "utf-8").astype(object)


def _bytes(array: NDArray) -> NDArray:
    return np.char.encode(array.astype(str), "utf-8") if array.dtype.hasobject else array


def litert_interpreter(path: Path, *, threads: int, delegates: bool = True) -> tuple[Any, str]:
    """LiteRT's interpreter of a file, else TensorFlow's, and its name with its version.

    Args:
        path: The file.
        threads: How many it uses.
        delegates: Whether operations may be handed to other kernels, which hides their tensors.
    """
    try:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        name = f"LiteRT {importlib.metadata.version('ai-edge-litert')}"
    except ImportError:
        import tensorflow as tf

        Interpreter, OpResolverType = tf.lite.Interpreter, tf.lite.experimental.OpResolverType
        name = f"{_TENSORFLOWS} {tf.__version__}"
    kernels = {} if delegates else {"experimental_op_resolver_type": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES}
    return Interpreter(model_path=str(path), num_threads=threads, **kernels), name


def _litert(path: Path) -> Opened:
    interpreter, name = litert_interpreter(path, threads=_cores())
    if name.startswith(_TENSORFLOWS) and _computes_in_int8(interpreter):
        # TensorFlow 2.21 hands products of two int8 activations, as attention has them, to kernels of XNNPACK that err
        # five times as much as its own. LiteRT 2.3 does not.
        interpreter, name = litert_interpreter(path, threads=_cores(), delegates=False)
    runner = interpreter.get_signature_runner(SIGNATURE)

    def call(inputs: Mapping[str, NDArray]) -> Mapping[str, NDArray]:
        fed = {name: array.astype(object) if array.dtype.kind == "S" else array for name, array in inputs.items()}
        return {name: _plain(value) for name, value in runner(**fed).items()}

    return Opened(call, name)


def _computes_in_int8(interpreter: Any) -> bool:
    return any(one["dtype"] is np.int8 for one in interpreter.get_tensor_details())


def _plain(array: NDArray) -> NDArray:
    return array.astype(np.bytes_) if array.dtype.hasobject else np.array(array)


def _openvino(path: Path) -> Opened:
    import openvino

    # Processors with bfloat16 would compute in it: another thing than what was exported.
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": _cores()}
    compiled = openvino.Core().compile_model(str(path), "CPU", settings)
    names = [output.get_any_name() for output in compiled.outputs]

    def call(inputs: Mapping[str, NDArray]) -> Mapping[str, NDArray]:
        found = compiled(dict(inputs))
        return {name: np.array(found[name]) for name in names}

    return Opened(call, f"OpenVINO {importlib.metadata.version('openvino')}")


def _cores() -> int:
    return len(os.sched_getaffinity(0))


_OPEN: Mapping[str, Callable[[Path], Opened]] = MappingProxyType(
    {"savedmodel": _saved_model, "onnx": _onnx, "litert": _litert, "openvino": _openvino}
)
