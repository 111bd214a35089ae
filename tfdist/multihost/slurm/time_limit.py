"""Time limits, in the forms that sbatch takes (https://slurm.schedmd.com/sbatch.html#OPT_time)."""

from __future__ import annotations

import re

_FORMS = (
    re.compile(r"(?P<minutes>[0-9]{1,9})(:(?P<seconds>[0-9]{1,2}))?"),
    re.compile(r"(?P<hours>[0-9]{1,6}):(?P<minutes>[0-9]{1,2}):(?P<seconds>[0-9]{1,2})"),
    re.compile(r"(?P<days>[0-9]{1,6})-(?P<hours>[0-9]{1,2})(:(?P<minutes>[0-9]{1,2})(:(?P<seconds>[0-9]{1,2}))?)?"),
)
_SECONDS = {"days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1}


def limit_seconds(text: str) -> int | None:
    """The seconds of `90`, `90:00`, `1:30:00`, `2-12` or `2-12:30:00`; None for no limit, and for other forms."""
    for form in _FORMS:
        found = form.fullmatch(text.strip())
        if found is not None:
            return sum(_SECONDS[name] * int(value) for name, value in found.groupdict().items() if value) or None
    return None
