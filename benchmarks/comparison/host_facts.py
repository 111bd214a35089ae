"""What a figure depends on: processor, versions, and which kernels TensorFlow was asked for."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from tfdist.doctor.machine.machine_facts import this_machine
from tfdist.doctor.machine.package_versions import installed

ONEDNN = "TF_ENABLE_ONEDNN_OPTS"
_PACKAGES = ("tfdist", "tensorflow", "tensorflow-cpu", "keras", "numpy")
_PROBE_SECONDS = 120


def host_facts() -> dict[str, Any]:
    """Facts by name, as JSON has them."""
    machine, versions = this_machine(), installed()
    return {
        "processor": machine.processor,
        "architecture": platform.machine(),
        "flags": _flags(Path("/proc/cpuinfo").read_text()),
        "vector_flags": list(machine.vector_flags),
        "cores": machine.cores,
        "memory": machine.memory,
        "system": platform.release(),
        "versions": {"python": versions["python"], **{name: versions[name] for name in _PACKAGES if name in versions}},
        ONEDNN: os.environ.get(ONEDNN),
    }


def free_memory() -> int:
    """Bytes that new processes can have, within the limit of this one's control group; 0 when it cannot be told."""
    return this_machine().free or 0


def starts_with_onednn() -> bool:
    """Whether TensorFlow itself computes with oneDNN here, with the variables that are set."""
    code = "from tfdist.runtime.devices import uses_onednn; raise SystemExit(10 + uses_onednn())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=_PROBE_SECONDS)
    if done.returncode not in (10, 11):
        raise RuntimeError(f"TensorFlow could not be asked for its kernels: {done.stderr[-500:]}")
    return done.returncode == 11


def describe(facts: dict[str, Any], torch: dict[str, Any] | None) -> list[str]:
    """The facts in lines of text."""
    versions = {**facts["versions"], **({"PyTorch": torch["torch"]} if torch else {})}
    asked = facts[ONEDNN]
    return [
        f"Processor: {facts['processor'] or facts['architecture']}, {facts['cores']} cores; "
        f"{', '.join(facts['vector_flags'])}.",
        f"Versions: {', '.join(f'{name} {version}' for name, version in versions.items())}.",
        f"{ONEDNN}: {'not set' if asked is None else asked}.",
    ]


def _flags(cpuinfo: str) -> str:
    """All flags of the first processor, between spaces."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip().lower() in ("flags", "features"):
            return value.strip()
    return ""
