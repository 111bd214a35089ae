"""Memory of this host: what processes may take together at most, by the system and by their control groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")
_OWN_GROUPS = Path("/proc/self/cgroup")
_KIB = 1024


def most_memory(meminfo_file: Path = _MEMINFO, groups_file: Path = _OWN_GROUPS, cgroup: Path = _CGROUP) -> int | None:
    """Bytes that this process and those beside it in its control groups may take together, swap included.

    What other processes use now does not count: they may end.

    Args:
        meminfo_file: Of the system.
        groups_file: Which names the control groups of this process.
        cgroup: Where control groups are mounted.

    Returns:
        None where it cannot be told.
    """
    found = meminfo(read_text(meminfo_file))
    if "MemTotal" not in found:
        return None
    swap = found.get("SwapTotal", 0)
    return min([found["MemTotal"] + swap, *_limits(read_text(groups_file), cgroup, swap)])


def meminfo(text: str) -> dict[str, int]:
    """Bytes by name, of the text of /proc/meminfo."""
    rows = (line.split() for line in text.splitlines())
    return {row[0].rstrip(":"): int(row[1]) * _KIB for row in rows if len(row) == 3 and row[1].isdigit()}


def read_text(path: Path) -> str:
    """The text of one of the system's files; empty where it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""


def _limits(groups: str, cgroup: Path, swap: int) -> Iterator[int]:
    """Bytes that each control group allows, from this process's own up to the outermost that it sees."""
    for line in groups.splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers not in ("", "memory"):
            continue
        second = not controllers  # the version of control groups
        top = cgroup if second else cgroup / "memory"
        own = top / path.lstrip("/")
        for folder in (own, *own.parents):
            yield from _limit_of_second(folder, swap) if second else _limit_of_first(folder, swap)
            if folder == top:
                break


def _limit_of_second(folder: Path, swap: int) -> Iterator[int]:
    limit, of_swap = (read_text(folder / name).strip() for name in ("memory.max", "memory.swap.max"))
    if limit.isdigit():
        yield int(limit) + (min(int(of_swap), swap) if of_swap.isdigit() else swap)


def _limit_of_first(folder: Path, swap: int) -> Iterator[int]:
    limit, of_both = (read_text(folder / f"memory.{name}limit_in_bytes").strip() for name in ("", "memsw."))
    if of_both.isdigit():
        yield int(of_both)
    elif limit.isdigit():
        yield int(limit) + swap
