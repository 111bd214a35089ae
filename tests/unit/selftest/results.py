"""A machine, layouts and results made by hand."""

from __future__ import annotations

from typing import Any

from tfdist.doctor.check_result import ok, warn
from tfdist.doctor.examination import LocalFacts
from tfdist.doctor.machine.machine_facts import Gpu, MachineFacts, NvidiaDriver
from tfdist.doctor.machine.tensorflow_facts import TensorFlowFacts
from tfdist.selftest.layouts import Layout
from tfdist.selftest.rows import Row, RowResult, SelftestSpec
from tfdist.selftest.selftest_report import MachineReport, SelftestReport
from tfdist.verify.replicas.verification_report import ComparisonVerdict

GIB = 1 << 30
ROW = Row("dense", "dense layers | all")
DEVICES = Layout("2 devices", 1, 2, (0, 1))
WORKERS = Layout("2 workers", 2, 2, (0, 1))


def tensorflow(gpus: int) -> TensorFlowFacts:
    return TensorFlowFacts(
        tensorflow="2.21.0",
        keras="3.15.1",
        numpy="2.4.6",
        backend="tensorflow",
        gpus=tuple({"name": "Tester 9000", "capability": "9.0"} for _ in range(gpus)),
        cuda="12.5.1",
        cudnn="9",
        capabilities=("sm_60",),
        nccl="2.27.3 (nvidia-nccl-cu12)" if gpus else None,
        onednn=True,
    )


def machine(gpus: int = 2) -> MachineReport:
    found = tuple(Gpu(number, "Tester 9000", "570.1", 80 * GIB, 79 * GIB, "9.0") for number in range(gpus))
    facts = MachineFacts("here", 8, 16, None, 64 * GIB, 60 * GIB, GIB, None, None, "A Processor", ("avx2", "avx512f"))
    local = LocalFacts(
        {"tfdist": "0.1", "tensorflow": "2.21.0", "keras": "3.15.1", "python": "3.11"},
        {"NCCL_DEBUG": "INFO"},
        NvidiaDriver(found),
        tensorflow(gpus),
        facts,
    )
    checks = (ok("versions", "tested"), warn("cores", "8 of 16", "Give it more."))
    topology = "\tGPU0\tGPU1\nGPU0\t X \tNV4" if gpus else ""
    return MachineReport("here", 1.7e9, "Linux-6", local, tensorflow(gpus), checks, topology)


def result(
    verdict: ComparisonVerdict = ComparisonVerdict.PASSED, row: Row = ROW, layout: Layout = DEVICES, **changes: Any
) -> RowResult:
    fields: dict[str, Any] = {"greatest": 1e-7, "allowed": 1e-5, "where": "loss, step 3", "seconds": 2.5, **changes}
    return RowResult(row, layout, verdict, **fields)


def report(*results: RowResult, gpus: int = 2, **changes: Any) -> SelftestReport:
    options = SelftestSpec().run_options | changes.pop("options", {})
    fields: dict[str, Any] = {"times": (), "notes": (), "seconds": 90.0, **changes}
    return SelftestReport(machine(gpus), options, results, **fields)
