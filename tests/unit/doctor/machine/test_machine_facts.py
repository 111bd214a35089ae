""""""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import pytest

from tfdist.doctor.machine.machine_facts import Gpu, NvidiaDriver, ask, parse, processor, quota, this_machine
from tfdist.plan.memory.host_memory import meminfo


def test_this_machine_is_as_the_system_says() -> None:
    found = this_machine()
    assert found.cores == len(os.sched_getaffinity(0))
    assert found.open_files == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert found.memory is not None and found.free is not None and 0 <= found.free <= found.memory


def test_meminfo() -> None:
    text = "MemTotal:       24631516 kB\nMemAvailable:   23986712 kB\nHugePages_Total:       0\nodd\n"
    assert meminfo(text) == {"MemTotal": 24631516 * 1024, "MemAvailable": 23986712 * 1024}


@pytest.mark.parametrize(
    ("text", "cores"), [("150000 100000\n", 1.5), ("max 100000\n", None), ("", None), ("odd text", None)]
)
def test_the_cpu_quota_of_a_control_group(text: str, cores: float | None) -> None:
    assert quota(text) == cores


@pytest.mark.parametrize(
    ("text", "model", "flags"),
    [
        (
            "processor\t: 0\nmodel name\t: A Processor\nflags\t\t: fpu avx avx2 avx512f amx_tile\n\n"
            "processor\t: 1\nmodel name\t: Another\n",
            "A Processor",
            ("amx_tile", "avx2", "avx512f"),
        ),
        ("processor\t: 0\nFeatures\t: fp asimd sve\n", "", ("asimd", "sve")),  # ARM
        ("", "", ()),
    ],
)
def test_the_processor(text: str, model: str, flags: tuple[str, ...]) -> None:
    assert processor(text) == (model, flags)


LINES = """\
0, NVIDIA A100-SXM4-80GB, 550.54.15, 81920, 81029, 8.0
1, NVIDIA GB10, 580.1, [N/A], [N/A], 12.1
"""
ABSENT = Path("/dev/absent")
MIB = 1 << 20


def saying(text: str, code: int = 0, stream: str = "stdout") -> tuple[str, ...]:
    return sys.executable, "-c", f"import sys; sys.{stream}.write({text!r}); sys.exit({code})"


def test_the_lines_are_read() -> None:
    assert parse(LINES) == (
        Gpu(0, "NVIDIA A100-SXM4-80GB", "550.54.15", 81920 * MIB, 81029 * MIB, "8.0"),
        Gpu(1, "NVIDIA GB10", "580.1", None, None, "12.1"),
    )


@pytest.mark.parametrize("text", ["No devices were found\n", "0, NVIDIA A100\n", "a, b, c, d, e, f\n"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="received"):
        parse(text)


def test_nvidia_smi_is_asked() -> None:
    assert len(ask(saying(LINES)).gpus) == 2
    assert ask(saying("no driver\n", 9, "stderr")) == NvidiaDriver(problem="nvidia-smi failed with 9: no driver")
    assert "was not understood" in ask(saying("what?")).problem


def test_without_nvidia_smi_and_device_file_there_is_no_gpu(tmp_path: Path) -> None:
    assert ask(("/absent/nvidia-smi",), ABSENT) == NvidiaDriver()
    assert "is there, but nvidia-smi is not" in ask(("/absent/nvidia-smi",), tmp_path).problem


def test_a_hanging_nvidia_smi_is_ended() -> None:
    hanging = (sys.executable, "-c", "import signal; signal.pause()")
    assert ask(hanging, seconds=0.1).problem == "nvidia-smi did not end within 0.1 s"
