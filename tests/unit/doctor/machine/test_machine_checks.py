from __future__ import annotations

from dataclasses import replace

import pytest

from tfdist.doctor.check_result import Check, CheckStatus
from tfdist.doctor.machine import machine_checks
from tfdist.doctor.machine.machine_checks import check_gpus, check_machine
from tfdist.doctor.machine.machine_facts import MachineFacts
from tfdist.doctor.machine.nvidia_smi import Gpu, NvidiaDriver
from tfdist.launch.worker import environment_defaults

GIB = 1 << 30
MACHINE = MachineFacts("here", 8, 8, None, 16 * GIB, 12 * GIB, 8 * GIB, 4096, None)
GPU = Gpu(0, "NVIDIA A100", "550.54", 80 * GIB, 79 * GIB, "8.0")
TWO = NvidiaDriver((GPU, replace(GPU, index=1)))


@pytest.mark.parametrize(
    ("name", "changed", "nvidia", "workers", "status", "text"),
    [
        ("cores", {}, NvidiaDriver(), 8, CheckStatus.OK, "8 of 8"),
        ("cores", {}, NvidiaDriver(), 9, CheckStatus.WARN, "8 of 8 for 9 worker(s)"),
        ("cores", {"quota": 1.5}, NvidiaDriver(), 2, CheckStatus.WARN, "limited to the time of 1.5"),
        ("cores", {"quota": 64.0}, NvidiaDriver(), 2, CheckStatus.OK, "8 of 8"),
        ("memory", {}, NvidiaDriver(), 12, CheckStatus.OK, "12.0 GiB free of 16.0 GiB"),
        ("memory", {}, NvidiaDriver(), 13, CheckStatus.WARN, "13 worker(s) take about 13.0 GiB"),
        ("memory", {"free": None, "memory": None}, NvidiaDriver(), 99, CheckStatus.OK, "unknown free of unknown"),
        ("shared memory", {"shared": 64 << 20}, NvidiaDriver(), 1, CheckStatus.OK, "/dev/shm of 64.0 MiB"),
        ("shared memory", {"shared": 64 << 20}, NvidiaDriver((GPU,)), 1, CheckStatus.OK, "/dev/shm of 64.0 MiB"),
        ("shared memory", {"shared": 64 << 20}, TWO, 1, CheckStatus.WARN, "joins the 2 GPUs: too small"),
        ("shared memory", {"shared": None}, TWO, 1, CheckStatus.WARN, "no /dev/shm"),
        ("open files", {}, NvidiaDriver(), 1, CheckStatus.OK, "at most 4096 a process"),
        ("open files", {"open_files": None}, NvidiaDriver(), 1, CheckStatus.OK, "no limit"),
        ("open files", {"open_files": 256, "most_open_files": 512}, NvidiaDriver(), 1, CheckStatus.WARN, "at most 256"),
    ],
)
def test_the_machine_is_judged(
    name: str,
    changed: dict[str, int | float | None],
    nvidia: NvidiaDriver,
    workers: int,
    status: CheckStatus,
    text: str,
) -> None:
    checks = check_machine(replace(MACHINE, **changed), nvidia, workers, {})  # type: ignore[arg-type]
    (check,) = [check for check in checks if check.name == name]
    assert check.status is status
    assert text in check.found


@pytest.mark.parametrize(
    ("nvidia", "statuses", "text"),
    [
        (NvidiaDriver(), [CheckStatus.OK], "no NVIDIA GPU here"),
        (NvidiaDriver(problem="nvidia-smi failed with 9: no driver"), [CheckStatus.WARN], "would compute on the CPU"),
        (TWO, [CheckStatus.OK] * 3, "compute capability 8.0, 79.0 GiB free of 80.0 GiB"),
        (
            NvidiaDriver((replace(GPU, free=GIB),)),
            [CheckStatus.OK, CheckStatus.WARN],
            "1.00 GiB free of 80.0 GiB: another program uses it",
        ),
        (NvidiaDriver((replace(GPU, memory=None, free=None),)), [CheckStatus.OK] * 2, "unknown free of unknown"),
    ],
)
def test_gpus_are_judged(nvidia: NvidiaDriver, statuses: list[CheckStatus], text: str) -> None:
    checks: list[Check] = check_gpus(nvidia)
    assert [check.status for check in checks] == statuses
    assert text in checks[-1].found


def test_malloc_settings_and_their_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    own = machine_checks.check_malloc({"LD_PRELOAD": "libjemalloc.so", "TF_CONFIG": "{}"})
    assert own.found.endswith("tfdist adds nothing: LD_PRELOAD=libjemalloc.so")
    monkeypatch.setattr(environment_defaults, "allocator_settings", lambda environ: {"MALLOC_ARENA_MAX": "1"})
    assert machine_checks.check_malloc({}).found.endswith("compute on the CPU, MALLOC_ARENA_MAX=1")
    monkeypatch.setattr(environment_defaults, "allocator_settings", lambda environ: {})
    assert "where there is a GPU" in machine_checks.check_malloc({}).found
