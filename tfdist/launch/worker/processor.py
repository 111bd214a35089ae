"""The processor of this machine, as the kernel describes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Processor:
    """A processor.

    Attributes:
        model: Its model; empty when it cannot be told.
        flags: What it can do, in the kernel's words, such as `avx2`.
        arm_core: Implementer and part of an ARM core, such as `("0x41", "0xd40")`; empty texts for other processors.
    """

    model: str = ""
    flags: frozenset[str] = frozenset()
    arm_core: tuple[str, str] = ("", "")

    def can(self, *flags: str) -> bool:
        """Returns whether it has all of some flags."""
        return self.flags.issuperset(flags)


def parse(text: str) -> Processor:
    """The first processor in the text of /proc/cpuinfo."""
    rows = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    found = {name.strip().lower(): value.strip() for name, _, value in rows}
    return Processor(
        found.get("model name", ""),
        frozenset(found.get("flags", found.get("features", "")).split()),
        (found.get("cpu implementer", ""), found.get("cpu part", "")),
    )


def this_processor(cpuinfo: Path = _CPUINFO) -> Processor:
    """This machine's processor; one without flags where the kernel does not tell."""
    try:
        return parse(cpuinfo.read_text())
    except OSError:
        return Processor()
