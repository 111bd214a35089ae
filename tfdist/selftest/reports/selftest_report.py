"""Report of a selftest: the machine, every result, the times, and the exit code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfdist.selftest.reports.machine_report import MachineReport
from tfdist.selftest.reports.speed_table import StepTime
from tfdist.selftest.row_results import RowResult, exit_code
from tfdist.selftest.selftest_spec import SelftestSpec
from tfdist.verify.relative_difference import json_number

_FORMAT = 1


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
