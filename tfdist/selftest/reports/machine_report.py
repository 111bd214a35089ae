"""The selftest's report of the machine: as `tfdist doctor` finds it, with the topology of its GPUs."""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tfdist.bounded_process import run
from tfdist.doctor.check_result import Check
from tfdist.doctor.local_checks import LocalFacts, check_facts, local_facts
from tfdist.doctor.machine.nvidia_smi import Gpu
from tfdist.doctor.machine.tensorflow_facts import BrokenTensorFlow, TensorFlowFacts
from tfdist.errors import WorkerFailedError
from tfdist.text import format_bytes

_TOPOLOGY = ("nvidia-smi", "topo", "-m")
_TOPOLOGY_SECONDS = 10.0
_NAMED_VERSIONS = ("tfdist", "python", "tensorflow", "keras", "numpy")


@dataclass(frozen=True)
class MachineReport:
    """The machine of a selftest.

    Attributes:
        host: Its name.
        began: When the selftest began, in seconds since 1970.
        system: Its operating system.
        local: What the doctor found.
        tensorflow: What TensorFlow found, which works.
        checks: What the doctor makes of it.
        topology: How its GPUs are connected, in NVIDIA's words; empty where there are none, or that is not known.
    """

    host: str
    began: float
    system: str
    local: LocalFacts
    tensorflow: TensorFlowFacts
    checks: tuple[Check, ...]
    topology: str

    @property
    def gpus(self) -> str:
        """The GPUs that TensorFlow sees, in words."""
        kinds = Counter(gpu["name"] for gpu in self.tensorflow.gpus)
        return ", ".join(f"{count} x {name}" for name, count in kinds.items()) or "no GPU, on the CPU"

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Name and value of everything that may matter, for people."""
        local, found = self.local, self.tensorflow
        machine = local.machine
        flags = ", ".join(machine.vector_flags) or "no vector flags known"
        return [
            ("host", self.host),
            ("time", time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(self.began))),
            ("system", self.system),
            ("processor", f"{machine.processor or 'unknown'} ({flags})"),
            ("cores", f"{machine.cores} of {machine.all_cores}"),
            ("memory", "unknown" if machine.memory is None else format_bytes(machine.memory, binary=True)),
            *((name, local.versions.get(name, "not installed")) for name in _NAMED_VERSIONS),
            # What runs compute by is another matter: `--kernels`.
            ("TensorFlow's own choice of kernels", "oneDNN's" if found.onednn else "its own"),
            *_gpu_facts(local.nvidia.gpus, local.nvidia.problem, found),
            *((f"${name}", value) for name, value in local.variables.items()),
        ]

    def to_json(self) -> dict[str, Any]:
        """In JSON's types."""
        return {
            "host": self.host,
            "began": self.began,
            "system": self.system,
            "machine": asdict(self.local.machine),
            "versions": dict(self.local.versions),
            "variables": dict(self.local.variables),
            "tensorflow": asdict(self.tensorflow),
            "driver": asdict(self.local.nvidia),
            "topology": self.topology,
            "checks": [{**asdict(check), "status": check.status.value} for check in self.checks],
        }


def _gpu_facts(gpus: Sequence[Gpu], problem: str, found: TensorFlowFacts) -> list[tuple[str, str]]:
    if problem:
        return [("driver", problem)]
    if not gpus:
        return [("GPUs", "none")]
    rows = [("driver", ", ".join(sorted({gpu.driver for gpu in gpus})))]
    rows += [("CUDA, cuDNN", f"{found.cuda or 'unknown'}, {found.cudnn or 'unknown'} (of TensorFlow's build)")]
    rows += [("NCCL", found.nccl or "of TensorFlow's build")]
    rows += [("GPUs in TensorFlow", str(len(found.gpus)))]
    return rows + [(f"GPU {gpu.index}", _gpu(gpu)) for gpu in gpus]


def _gpu(gpu: Gpu) -> str:
    memory = "unknown" if gpu.memory is None else format_bytes(gpu.memory, binary=True)
    return f"{gpu.name}, {memory}, compute capability {gpu.capability}"


def look(began: float, seconds: float) -> MachineReport:
    """Looks at this machine.

    Args:
        began: When the selftest began.
        seconds: How long it may take.

    Raises:
        WorkerFailedError: TensorFlow does not work here.
    """
    local = local_facts(None, seconds)
    if isinstance(local.tensorflow, BrokenTensorFlow):
        said = "\n".join(local.tensorflow.output)
        raise WorkerFailedError(
            f"TensorFlow does not work here: a process that uses it {local.tensorflow.what}. `tfdist doctor` says more."
            + (f"\n{said}" if said else "")
        )
    return MachineReport(
        local.machine.host,
        began,
        platform.platform(),
        local,
        local.tensorflow,
        tuple(check_facts(local, max(len(local.tensorflow.gpus), 1))),
        topology() if local.nvidia.gpus else "",
    )


def topology(command: Sequence[str] = _TOPOLOGY) -> str:
    """Returns how the GPUs are connected, as NVIDIA's driver draws it; why that is not known, where it is not."""
    try:
        done = run(command, _TOPOLOGY_SECONDS)
    except OSError as error:
        return f"not known: {error}"
    if done.code != 0:
        return f"not known: {' '.join(command)} ended with {done.code}"
    return _without_colours(done.out).rstrip()


def _without_colours(text: str) -> str:
    """nvidia-smi underlines its headings."""
    parts = text.split("\x1b[")
    return parts[0] + "".join(part.partition("m")[2] for part in parts[1:])
