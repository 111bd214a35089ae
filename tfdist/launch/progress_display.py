"""Display of a run's progress by the launcher of the chief's host: a live bar, lines now and then, or nothing.

The line that shows the progress of a run where no bar can be drawn.

The fields of a record of how far a run is, for programs: numbers where the line for people has words.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from tfdist.errors import RunDirError, UsageError
from tfdist.launch import progress_fields as fields
from tfdist.launch.logs.terminal import Terminal
from tfdist.launch.run_progress import RunProgress

Progress = Literal["auto", "bar", "plain", "none"]
"""The values that `--progress` takes."""

Shown = Literal["bar", "plain", "none"]

PLAIN_SECONDS = 10.0
"""Between two plain lines."""


def choose(wanted: Progress, *, is_screen: bool, is_dumb: bool, has_rich: bool = True) -> Shown:
    """Returns what is shown.

    Args:
        wanted: As `--progress` says.
        is_screen: Whether stderr is a terminal on which a bar stays whole.
        is_dumb: Whether that cannot move its cursor.
        has_rich: Whether the package rich is installed, which draws the bar: Keras brings it along.

    Raises:
        UsageError: A bar is wanted and cannot be drawn.
    """
    if wanted == "bar" and not has_rich:
        raise UsageError(
            "--progress bar draws with the package rich, which is not installed. Expected it, as Keras needs it too. "
            "Install it (pip install rich), or use --progress plain."
        )
    if wanted != "auto":
        return wanted
    return "bar" if is_screen and not is_dumb and has_rich else "plain"


class ProgressDisplay:
    """Shows on a terminal what the chief tells of its progress."""

    def __init__(
        self,
        terminal: Terminal,
        shown: Shown,
        *,
        encoding: str = "utf-8",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._terminal = terminal
        self._shown = shown
        self._encoding = encoding
        self._clock = clock
        self._said: float | None = None

    def update(self, told: Mapping[str, Any] | None) -> None:
        """Shows what the chief has told; None clears what is shown, as its training has ended."""
        if told is None:
            self.clear()
            return
        if self._shown == "none":
            return
        # It was made by this version of tfdist; a script that writes into its channel sees no bar.
        with contextlib.suppress(RunDirError):
            self._show(RunProgress.from_dict(told))

    def clear(self) -> None:
        """Removes the bar, if there is one."""
        self._said = None
        if self._shown == "bar":
            self._terminal.draw(())

    def _show(self, progress: RunProgress) -> None:
        if self._shown == "bar":
            self._draw(progress)
            return
        now = self._clock()
        if self._said is None:
            # The first epochs of a small run are over before there is anything to say.
            self._said = now
        elif now - self._said >= PLAIN_SECONDS:
            self._said = now
            self._terminal.say(plain_line(progress), **progress_record(progress))

    def _draw(self, progress: RunProgress) -> None:
        try:
            # Imported here: rich takes a tenth of a second, and most launchers draw nothing.
            from tfdist.launch.progress_bar import Screen, draw

            lines = draw(progress, Screen(self._terminal.columns(), self._encoding))
        except Exception as error:
            # Whatever a library makes of this terminal, a picture must not end the training.
            self.clear()
            self._shown = "plain"
            self._terminal.say(f"the bar of the progress cannot be drawn ({error!r}); lines follow instead")
            return
        self._terminal.draw(lines)


def plain_line(progress: RunProgress) -> str:
    """`epoch  3/10  step 120/469  loss 0.2311  accuracy 0.9342  8,412 samples/s  0:12 left, run 4:05  input 7 %`."""
    parts = [
        fields.epoch(progress),
        f"step {fields.steps(progress)}",
        fields.doing(progress),
        *fields.metrics(progress),
        fields.rate(progress),
        fields.left(progress),
        fields.waiting(progress),
        fields.memory(progress),
    ]
    return "  ".join(filter(None, parts))


def progress_record(progress: RunProgress) -> dict[str, Any]:
    """The fields; those that are not known are None. Epochs count from 1, as in the line for people."""
    return {
        "event": "progress",
        "state": progress.state.value,
        "epoch": progress.epoch + 1,
        "epochs": progress.epochs,
        "step": progress.step,
        "steps": progress.steps,
        "metrics": {name: _number(text) for name, text in progress.metrics.items()} or None,
        "samples_per_second": round(progress.rate, 3) or None,
        "input_wait": round(progress.waited, 4),
        "epoch_seconds_left": _rounded(progress.epoch_left),
        "run_seconds_left": _rounded(progress.run_left),
        "gpu_memory_bytes": progress.gpu_memory,
    }


def _number(text: str) -> float | None:
    """The value of a metric; None for what is no number that JSON has."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
