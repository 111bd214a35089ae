"""Report of a selftest: the machine as `tfdist doctor` finds it, every result, the times, and the exit code."""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tfdist.bounded_process import run
from tfdist.doctor.check_result import Check
from tfdist.doctor.examination import LocalFacts, check_facts, local_facts
from tfdist.doctor.machine.machine_facts import Gpu
from tfdist.doctor.machine.tensorflow_facts import BrokenTensorFlow, TensorFlowFacts
from tfdist.errors import WorkerFailedError
from tfdist.selftest.rows import RowResult, SelftestSpec, exit_code
from tfdist.text import format_bytes, format_duration, table
from tfdist.verify.relative_difference import json_number

_HEADINGS = ("model", "on", "global batch", "time a step", "samples/s", "scaling")
_TOPOLOGY = ("nvidia-smi", "topo", "-m")
_TOPOLOGY_SECONDS = 10.0
_NAMED_VERSIONS = ("tfdist", "python", "tensorflow", "keras", "numpy")
_FORMAT = 1


@dataclass(frozen=True)
class StepTime:
    """Time of a step of one model in one layout.

    Attributes:
        model: Its name.
        layout: The layout's label.
        replicas: Replicas of the layout.
        seconds: Of a step.
        batch: Samples of a step, over all replicas.
        scaling: Samples a second over those of one device times the replicas; None where one device has no time.
    """

    model: str
    layout: str
    replicas: int
    seconds: float
    batch: int
    scaling: float | None = None

    @property
    def rate(self) -> float:
        """Samples a second."""
        return self.batch / self.seconds

    def to_json(self) -> dict[str, Any]:
        """In JSON's types."""
        return {**asdict(self), "samples_per_second": self.rate}


def step_times(found: Sequence[tuple[str, int, Mapping[str, Any]]]) -> tuple[StepTime, ...]:
    """The times of all layouts.

    Args:
        found: Label, replicas and what the row has found, of each layout; that of one device first, where there is one.
    """
    alone = {model: time["batch"] / time["seconds"] for _, replicas, times in found if replicas == 1
             for model, time in times.items()}  # fmt: skip
    return tuple(
        StepTime(model, label, replicas, time["seconds"], time["batch"], _scaling(time, alone.get(model), replicas))
        for label, replicas, times in found
        for model, time in times.items()
    )


def _scaling(time: Mapping[str, Any], alone: float | None, replicas: int) -> float | None:
    return None if alone is None else time["batch"] / time["seconds"] / (replicas * alone)


def speed_rows(times: Sequence[StepTime]) -> list[tuple[str, ...]]:
    """The cells of the table, headings first, a model after the other."""
    ordered = sorted(times, key=lambda time: time.model)
    return [_HEADINGS, *(_cells(time) for time in ordered)]


def speed_lines(times: Sequence[StepTime]) -> Iterator[str]:
    """The table for terminals."""
    yield from table(speed_rows(times), "llrrrr", indent="  ")


def _cells(time: StepTime) -> tuple[str, ...]:
    scaling = "-" if time.scaling is None else f"{100 * time.scaling:.0f} %"
    return (
        time.model,
        time.layout,
        f"{time.batch:,}",
        format_duration(time.seconds),
        f"{time.rate:,.0f}",
        scaling,
    )


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


@dataclass(frozen=True)
class SelftestReport:
    """Everything that a selftest has found.

    Attributes:
        machine: The machine.
        options: What decides how runs compute: `batch_norm`, `communication`, `compression`, `kernels`.
        results: In the order in which they came.
        times: Times of a step.
        notes: What a reader must know of the layouts, a sentence each.
        seconds: How long all of it took.
    """

    machine: MachineReport
    options: Mapping[str, str]
    results: tuple[RowResult, ...]
    times: tuple[StepTime, ...]
    notes: tuple[str, ...]
    seconds: float

    @property
    def code(self) -> int:
        """The exit code of the command."""
        return exit_code(self.results)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object. Numbers that are not finite are texts: "nan", "inf", "-inf"."""
        return {
            "format": _FORMAT,
            "exit_code": self.code,
            "seconds": self.seconds,
            "options": dict(self.options),
            "machine": self.machine.to_json(),
            "rows": [_result(result) for result in self.results],
            "times": [time.to_json() for time in self.times],
            "notes": list(self.notes),
            # Of earlier versions: a machine with one GPU had no workers.
            "missing": [],
        }


def chosen_flags(options: Mapping[str, str]) -> str:
    """Those options that are not the default, as the command line has them."""
    usual = SelftestSpec().run_options
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in options.items() if value != usual[name])


def _result(result: RowResult) -> Mapping[str, Any]:
    return {
        "row": result.row.name,
        "title": result.row.title,
        "layout": result.layout.label,
        "replicas": result.layout.replicas,
        "workers": result.layout.workers,
        "verdict": result.verdict.value,
        "greatest": json_number(result.greatest),
        "allowed": json_number(result.allowed),
        "of": result.where,
        "reason": result.reason,
        "detail": result.detail,
        "seconds": result.seconds,
        **({"comparison": result.document} if result.document else {}),
    }
