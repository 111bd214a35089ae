"""Detection of the kernel's out-of-memory kills, whose SIGKILL looks like anybody else's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_ROOT = Path("/")


@dataclass(frozen=True)
class OomKillCount:
    """How many processes the kernel has killed because memory was full, on this machine and in this control group.

    Attributes:
        machine: Since the machine started; None where the kernel does not count them.
        group: In this process's control group since it was made; None likewise.
    """

    machine: int | None
    group: int | None

    @classmethod
    def now(cls, root: Path = _ROOT) -> OomKillCount:
        """The counts now; `root` is the directory of `proc` and `sys`."""
        return cls(_counter(root / "proc/vmstat"), _counter(_events_file(root)))

    def grew(self, later: OomKillCount) -> bool | None:
        """Whether there were kills between this count and a later one; None when that is unknown.

        The group's count includes kills because the whole machine's memory was full, and only of this job's processes:
        where it is known, the machine's count, which includes other jobs, is not looked at.
        """
        if self.group is not None and later.group is not None:
            return later.group > self.group
        if self.machine is not None and later.machine is not None:
            return later.machine > self.machine
        return None


def _events_file(root: Path) -> Path | None:
    """The file of this process's control group (version 2) that counts the kills."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("0::"):
            # In a container the path may be the host's, which cannot be seen: then the group is at the root.
            inside = root / "sys/fs/cgroup" / line.removeprefix("0::").lstrip("/") / "memory.events"
            return inside if inside.exists() else root / "sys/fs/cgroup/memory.events"
    return None


def _counter(file: Path | None) -> int | None:
    if file is None:
        return None
    try:
        for line in file.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    except (OSError, ValueError):
        return None
    return None
