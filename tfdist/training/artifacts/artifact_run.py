"""Runs an artefact in its own runtime, in a process that has nothing of the one that has written it.

The folder has `request.json` and `inputs.npz`; `outputs.npz` and `answer.json` come to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfdist.bounded_process import how_ended, question_of_parent, started
from tfdist.errors import UnsupportedError, WorkerFailedError
from tfdist.rundir.temp_names import temporary_folder
from tfdist.tf_log_filter import last_words
from tfdist.training.artifacts.artifact_formats import RUNTIME_NAMES
from tfdist.training.artifacts.artifact_runtimes import Arrays, CallTimes, batches_of, open_artifact, take_times

REQUEST, INPUTS, OUTPUTS, ANSWER = "request.json", "inputs.npz", "outputs.npz", "answer.json"


def main() -> None:
    """Runs the artefact, and writes what came of it, or what its runtime said."""
    question_of_parent()  # none: what is asked is in the folder
    folder = Path(sys.argv[1])
    request = json.loads((folder / REQUEST).read_text())
    try:
        answer = _run(folder, request)
    except Exception as error:  # noqa: BLE001 - whatever a runtime raises is what it says of the artefact
        answer = {"error": f"{type(error).__name__}: {error}"}
    (folder / ANSWER).write_text(json.dumps(answer))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads of a runtime may not hold up the end


def _run(folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    with np.load(folder / INPUTS, allow_pickle=False) as file:
        inputs = {name: file[f"input_{place}"] for place, name in enumerate(request["inputs"])}
    opened = open_artifact(request["runtime"], Path(request["path"]))
    size = request["batch_size"]
    found = [opened.call(batch) for batch in batches_of(inputs, size)]
    names = list(found[0])
    arrays = {f"output_{place}": np.concatenate([one[name] for one in found]) for place, name in enumerate(names)}
    np.savez(folder / OUTPUTS, **arrays)  # type: ignore[arg-type]
    times = take_times(opened.call, inputs, size, is_fixed=request["is_fixed"])
    return {"outputs": names, "runtime": opened.runtime, "times": asdict(times)}


_MODULE = "tfdist.training.artifacts.artifact_run"


@dataclass(frozen=True)
class ArtifactRun:
    """The outcome of an artefact's run.

    Attributes:
        outputs: Name -> [samples, ...]; texts as bytes.
        times: How long a call took.
        runtime: What has run it, with its version.
    """

    outputs: dict[str, NDArray]
    times: CallTimes
    runtime: str


def run_artifact(
    runtime: str, path: Path, inputs: Arrays, batch_size: int, *, is_fixed: bool = False, seconds: float = 600.0
) -> ArtifactRun:
    """Runs an artefact on all samples, in batches, and measures a call.

    Args:
        runtime: A key of `RUNTIME_NAMES`.
        path: The file, or a SavedModel's folder.
        inputs: Name -> [samples, ...]; numbers, or texts as arrays of bytes.
        batch_size: Samples of a call; the last has what is left.
        is_fixed: Whether it takes no other number of samples: `batch_size` then divides that of the samples.
        seconds: How long it may take.

    Raises:
        UnsupportedError: The runtime does not load or run it; the text has what it says.
        WorkerFailedError: The process died, or took too long.

    Example:
        run = run_artifact("litert", Path("model.tflite"), {"input": images}, 32)
        compare_output("output", model.predict(images), run.outputs["output"], "argmax")
    """
    title = RUNTIME_NAMES[runtime]
    with temporary_folder("artifact") as folder:
        request: dict[str, Any] = {
            "runtime": runtime,
            "path": str(path.absolute()),
            "inputs": list(inputs),
            "batch_size": batch_size,
            "is_fixed": is_fixed,
        }
        (folder / REQUEST).write_text(json.dumps(request))
        arrays = {f"input_{place}": array for place, array in enumerate(inputs.values())}
        np.savez(folder / INPUTS, **arrays)  # type: ignore[arg-type]
        _run_process(folder, title, seconds)
        answer = json.loads((folder / ANSWER).read_text())
        if "error" in answer:
            said = " ".join(answer["error"].replace(request["path"], "the file").split())
            raise UnsupportedError(
                f"{title} does not run what was written: {said} Expected that it loads "
                "and runs it. Choose another --format."
            )
        with np.load(folder / OUTPUTS, allow_pickle=False) as file:
            outputs = {name: file[f"output_{place}"] for place, name in enumerate(answer["outputs"])}
    return ArtifactRun(outputs, CallTimes(**answer["times"]), answer["runtime"])


def _run_process(folder: Path, title: str, seconds: float) -> None:
    with (
        (folder / "log").open("w+b") as log,
        started([sys.executable, "-m", _MODULE, str(folder)], question=b"", stdout=log, stderr=log) as process,
    ):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        code = process.poll()
        log.seek(0)
        said = last_words(log.read())
    if code is None:
        raise WorkerFailedError(
            f"{title} took longer than {seconds:.0f} s to load and to run what was written.{said} Give it "
            "longer with --timeout, or fewer --samples."
        )
    if code != 0 or not (folder / ANSWER).exists():
        raise WorkerFailedError(
            f"{title} ended its process ({how_ended(code)}) while it loaded or ran what was written. Expected that it "
            f"runs it. Choose another --format, or another version of it.{said}"
        )


if __name__ == "__main__":
    main()
