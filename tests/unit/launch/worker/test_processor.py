"""Processors, from the text of /proc/cpuinfo."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.launch.worker.processor import Processor, parse, this_processor

AMD = "processor\t: 0\nmodel name\t: A Processor\nflags\t\t: fpu fma avx2\n\nprocessor\t: 1\nmodel name\t: Another\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\nCPU revision\t: 1\n\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (AMD, Processor("A Processor", frozenset({"fpu", "fma", "avx2"}))),
        (ARM, Processor("", frozenset({"fp", "asimd", "sve"}), ("0x41", "0xd40"))),
        ("no such rows", Processor()),
        ("", Processor()),
    ],
)
def test_the_first_processor_is_read(text: str, expected: Processor, tmp_path: Path) -> None:
    assert parse(text) == expected
    (tmp_path / "cpuinfo").write_text(text)
    assert this_processor(tmp_path / "cpuinfo") == expected


def test_a_kernel_that_does_not_tell(tmp_path: Path) -> None:
    assert this_processor(tmp_path / "absent") == Processor()


def test_it_can_what_all_of_the_flags_say() -> None:
    processor = parse(AMD)
    assert processor.can("avx2", "fma")
    assert not processor.can("avx2", "avx512f")
