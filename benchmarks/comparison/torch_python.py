"""The Python interpreter that has PyTorch: this one, or another that the user names. Nothing is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

ABSENT = (
    "There is no PyTorch here, so its column stays empty. Expected one that is installed: give the Python that has it "
    "with --torch-python PATH."
)

_PROBE_SECONDS = 120
_PROBE = """
import json, platform, torch, torch.distributed
print(json.dumps({"torch": torch.__version__, "python": platform.python_version(),
                  "capability": torch.backends.cpu.get_cpu_capability(),
                  "onednn": torch.backends.mkldnn.is_available(), "mkl": torch.backends.mkl.is_available(),
                  "nccl": list(torch.cuda.nccl.version()) if torch.version.cuda else [],
                  "gloo": torch.distributed.is_available() and torch.distributed.is_gloo_available()}))
"""


class TorchPythonError(Exception):
    """An interpreter that was asked for has no PyTorch that can train on several workers."""


@dataclass(frozen=True)
class TorchPython:
    """An interpreter with PyTorch.

    Attributes:
        path: The interpreter.
        facts: `torch` and `python`, versions; `capability`, the instructions that its own kernels use; `nccl`, the
            numbers of the version of its NCCL, none without one; `onednn`, `mkl` and `gloo`, whether it is built with
            them.
    """

    path: str
    facts: dict[str, Any]


def find_torch(path: str | None, changed: Mapping[str, str | None] = MappingProxyType({})) -> TorchPython | None:
    """The interpreter at `path`; without one this interpreter, or None if it has no PyTorch.

    Args:
        path: Of an interpreter; None for this one.
        changed: Variables that it gets besides this process's; None for one that it does not get.

    Raises:
        TorchPythonError: The interpreter that was asked for, or the PyTorch that was found, does not do.
    """
    if path is None:
        if importlib.util.find_spec("torch") is None:
            return None
        path = sys.executable
    environment = {name: value for name, value in {**os.environ, **changed}.items() if value is not None}
    probe = [path, "-c", _PROBE]
    try:
        done = subprocess.run(probe, env=environment, capture_output=True, text=True, timeout=_PROBE_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TorchPythonError(_unfit(path, str(error))) from None
    if done.returncode != 0:
        raise TorchPythonError(_unfit(path, (done.stderr.strip().splitlines() or ["nothing"])[-1]))
    facts = json.loads(done.stdout.splitlines()[-1])
    if not facts["gloo"]:
        raise TorchPythonError(_unfit(path, f"PyTorch {facts['torch']} without gloo"))
    return TorchPython(path, facts)


def _unfit(path: str, received: str) -> str:
    return (
        f"{path} cannot train with PyTorch. Expected the path of a Python that imports torch, with gloo. Received: "
        f"{received}\nGive another one with --torch-python, or leave it out."
    )
