"""Answers of the TensorFlow probe, made by hand."""

from __future__ import annotations

import json
from typing import Any

from tfdist.doctor.machine.tensorflow_facts import TensorFlowFacts, understand

TOLD: dict[str, Any] = {
    "tensorflow": "2.21.0",
    "keras": "3.15.1",
    "numpy": "2.4.6",
    "backend": "tensorflow",
    "gpus": [],
    "cuda": "12.5.1",
    "cudnn": "9",
    "capabilities": ["sm_60", "compute_90"],
    "nccl": None,
}
ONE = {"devices": ["/device:CPU:0"], "choice": {"kind": "one", "communication": "none", "reason": "so it is"}}


def facts(**changed: Any) -> TensorFlowFacts:
    found = understand(json.dumps({"facts": {**TOLD, **ONE, **changed}}), "", 0, None)
    assert isinstance(found, TensorFlowFacts)
    return found
