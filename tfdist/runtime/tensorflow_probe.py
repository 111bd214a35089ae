"""A program that reports what TensorFlow finds on this machine, and what a worker here would use.

`python -m tfdist.runtime.tensorflow_probe REQUEST`, where REQUEST is JSON with `workers`, `rank`, `size` and
`seconds`. It prints JSON objects, one a line: `{"stage": text}` before each step that may take long or crash, and
`{"facts": {...}}` or `{"refused": {...}}` at the end. A process that hangs ends itself after `seconds`, and writes
to stderr where it hung.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from tfdist.bounded_process import question_of_parent
from tfdist.runtime.nccl_version import nccl_version


def main() -> None:
    """Probes, and reports."""
    request = json.loads(sys.argv[1])
    # Not a thread of Python's, so that it acts even while native code holds the interpreter.
    faulthandler.dump_traceback_later(request["seconds"], exit=True)
    question_of_parent()  # none: what is asked is its argument
    # What libraries print must not mix with the report.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    _tell(out, stage="import TensorFlow")
    import tensorflow as tf

    _tell(out, stage="import Keras")
    import keras
    import numpy

    from tfdist.runtime.devices import uses_onednn

    _tell(out, stage="look for GPUs")
    gpus = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    build = tf.sysconfig.get_build_info()
    facts: dict[str, Any] = {
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": numpy.__version__,
        "backend": keras.backend.backend(),
        "gpus": [
            {
                "name": str(detail.get("device_name", "unknown")),
                "capability": ".".join(map(str, detail.get("compute_capability", ()))),
            }
            for detail in details
        ],
        "cuda": str(build.get("cuda_version", "")),
        "cudnn": str(build.get("cudnn_version", "")),
        "capabilities": [str(capability) for capability in build.get("cuda_compute_capabilities", ())],
        "nccl": nccl_version() if gpus else None,
        "onednn": uses_onednn(),
    }
    _tell(out, stage="choose devices and a strategy")
    _tell(out, **_choice(request, facts))


def _choice(request: Mapping[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    # Imported here, after TensorFlow has been imported on its own.
    from tfdist.errors import UsageError
    from tfdist.runtime.devices import DeviceRequest, apply
    from tfdist.runtime.strategy import choose

    workers = request["workers"]
    try:
        devices = apply(DeviceRequest(local_rank=request["rank"], local_size=request["size"]), workers=workers)
        choice = choose(devices, workers=workers, logical=False)
    except UsageError as error:
        return {"refused": {**facts, "text": str(error)}}
    return {"facts": {**facts, "devices": devices, "choice": vars(choice)}}


def _tell(out: TextIO, **message: Any) -> None:
    print(json.dumps(message), file=out)


if __name__ == "__main__":
    main()
