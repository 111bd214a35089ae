"""The process in which an artefact runs: `python -m` this module with a folder, which `artifact_run` has filled.

The folder has `request.json` and `inputs.npz`; `outputs.npz` and `answer.json` come to it.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tfdist.bounded_process import question_of_parent
from tfdist.training.artifacts.artifact_runtimes import open_artifact
from tfdist.training.artifacts.call_times import batches_of, take_times

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


if __name__ == "__main__":
    main()
