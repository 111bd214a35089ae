from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tfdist.doctor.machine.nvidia_smi import Gpu, NvidiaDriver, ask, parse

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
