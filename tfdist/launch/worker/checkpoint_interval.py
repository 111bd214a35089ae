"""The interval at which a run saves, as `--checkpoint-every` has it: after so many steps, or minutes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tfdist.errors import UsageError

_TEXT = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<minutes>m?)")


@dataclass(frozen=True)
class CheckpointInterval:
    """The interval at which checkpoints are made, besides at the end of every epoch.

    Attributes:
        steps: After each multiple of so many steps; None where the clock decides.
        minutes: When the last one is so old; None where the steps do.
    """

    steps: int | None
    minutes: float | None

    @classmethod
    def parse(cls, text: str) -> CheckpointInterval:
        """The interval of a text such as `500` or `2.5m`.

        Raises:
            UsageError: It is neither.
        """
        match = _TEXT.fullmatch(text) if text.isascii() else None
        number = float(match["number"]) if match else 0.0
        if match is None or not 0 < number < math.inf or not (match["minutes"] or number.is_integer()):
            raise UsageError(
                "--checkpoint-every expects a whole number of steps, such as 500, or minutes, such as 2.5m. Received: "
                f"{text}"
            )
        return cls(None, number) if match["minutes"] else cls(int(number), None)

    def config_entries(self) -> tuple[str, ...]:
        """The same as entries of a config, as `--set` has them."""
        steps, minutes = ("null" if value is None else f"{value:g}" for value in (self.steps, self.minutes))
        return (f"checkpoint.every_steps={steps}", f"checkpoint.every_minutes={minutes}")
