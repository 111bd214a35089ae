"""How much of the steps' time goes by waiting for data, and which one change would help most."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

MUCH = 0.1
"""The part of the steps' time from which on waiting for data is worth a remedy."""

MUCH_SECONDS = 1.0
"""Of an epoch: who trains for less than this has nothing to gain."""

_SATURATED = 0.75
"""The part of the cores from which on they are what the input lacks."""


@dataclass(frozen=True)
class InputDescription:
    """What is known of the input of a training.

    Attributes:
        format: As in the config.
        decodes: Whether encoded images are decoded.
        python: What runs Python code for each sample, `parse` say; empty where nothing does.
        function: The user's function that each sample goes through, `parse` or `augment`; empty without one.
        cores: That this process may use.
    """

    format: str
    decodes: bool
    python: str
    function: str
    cores: int


@dataclass(frozen=True)
class InputWait:
    """One stretch of training.

    Attributes:
        seconds: That its steps took.
        waited: Seconds of these in which a step had begun and its data was not there; 0 where nobody measures them.
        busy: Mean number of cores that this process kept busy meanwhile.
    """

    seconds: float
    waited: float
    busy: float

    @property
    def share(self) -> float:
        """The part of the steps' time that waited for data, 0 to 1."""
        return min(1.0, self.waited / self.seconds) if self.seconds > 0 else 0.0

    @property
    def is_much(self) -> bool:
        """Whether it is worth a remedy."""
        return self.share > MUCH and self.waited > MUCH_SECONDS


class InputWaitClock:
    """Measures a stretch of steps.

    Args:
        fetched: Seconds that training steps have waited for data since the process began.
        clock: Seconds, never going back.
        cpu: Seconds of processor time of all threads of this process.
    """

    def __init__(
        self,
        fetched: Callable[[], float],
        clock: Callable[[], float] = time.perf_counter,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self._fetched, self._clock, self._cpu = fetched, clock, cpu
        self.begin()

    def begin(self) -> None:
        """The stretch begins."""
        self._fetched_before = self._fetched()
        self._begun = self._last = (self._clock(), self._cpu())

    def step(self) -> None:
        """A step is done. It takes a microsecond."""
        self._last = (self._clock(), self._cpu())

    def end(self) -> InputWait:
        """What the stretch amounts to, which ended with the last step."""
        seconds, cpu = (last - begun for last, begun in zip(self._last, self._begun, strict=True))
        seconds = max(seconds, 1e-9)
        return InputWait(seconds, self._fetched() - self._fetched_before, cpu / seconds)


def remedy(source: InputDescription, wait: InputWait) -> str:
    """The one change that would help most, in a sentence."""
    if source.python:
        return (
            f"{source.python} runs Python code for each sample, one at a time: write it in TensorFlow's operations, "
            "which run on all cores."
        )
    if source.format in ("csv", "text"):
        return (
            "Lines are parsed by Python, one at a time: make TFRecord files of them with `tfdist data shard`, which "
            "TensorFlow parses on all cores."
        )
    if source.format == "generator":
        return (
            f"{source.function} makes samples one at a time, in Python: give it lanes, which the workers share, or "
            "write what it makes to TFRecord files once."
        )
    cores = f"{wait.busy:.1f} of {source.cores} cores are busy"
    if wait.busy < _SATURATED * source.cores:
        also = "; of an image folder, `tfdist data shard` makes a few large files" if source.format == "images" else ""
        return f"{cores}, so the files come too slowly: put them on a faster disk, or on one of this machine{also}."
    if source.function:
        return (
            f"{cores}: give the run more of them, or do in the files once what {source.function} does alike in every "
            "epoch."
        )
    if source.decodes:
        return (
            f"{cores}, decoding among others: store the images in about the size that they are resized to, or give "
            "the run more cores."
        )
    return f"{cores}: give the run more of them."
