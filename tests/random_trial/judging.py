"""Whether several replicas give the numbers of one, and whether that can be expected of a draw."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from tests.random_trial.draw import Draw
from tests.random_trial.refusals import is_expected
from tests.random_trial.runs import JobFailedError, MadeWholeError, Numbers, of_one_replica, of_several_replicas
from tests.random_trial.script import tolerance_of
from tfdist.errors import UnsupportedError

_NUDGE = {"float64": 1e-15, "float32": 5e-7, "mixed_bfloat16": 1e-2}
"""A few units in the last place of what is computed in."""

_SHARE = 0.02
"""What part of a difference rounding alone must make at the same place in one replica, for it to tell nothing."""

_FRAMES = ("in user code", "File ", "Exception encountered", "^", "Graph execution error", "Detected at node")
"""With what the lines of an error's text begin that tell where it was raised, and not what it is."""


class Kind(StrEnum):
    """What came of a draw."""

    SAME = "same"
    INVALID = "invalid"
    """It fails on one replica as well."""
    UNSTABLE = "unstable"
    """What rounding does in it on one replica is as large as the difference."""
    REFUSED = "refused"
    DIFFERENT = "different"
    CRASHED = "crashed"
    REFUSED_UNEXPECTEDLY = "refused unexpectedly"
    MADE_WHOLE = "made whole"
    """Its first step is not shared out rightly, or the check of first steps takes it for that."""

    @property
    def is_finding(self) -> bool:
        """Whether it is to be looked at."""
        return self in (Kind.DIFFERENT, Kind.CRASHED, Kind.REFUSED_UNEXPECTEDLY, Kind.MADE_WHOLE)


@dataclass(frozen=True)
class Verdict:
    """What came of a draw.

    Attributes:
        kind: In a word.
        line: In a line: the place of the difference, the error's first line.
        details: A traceback, or nothing.
    """

    kind: Kind
    line: str = ""
    details: str = ""

    def is_like(self, other: Verdict) -> bool:
        """Whether both fail in the same way, as far as can be told."""
        return self.kind is other.kind and (
            self.kind in (Kind.DIFFERENT, Kind.MADE_WHOLE) or _gist(self.line) == _gist(other.line)
        )


def judge(draw: Draw) -> Verdict:
    """Runs a draw on one replica and on several, and compares."""
    try:
        one = of_one_replica(draw)
    except Exception as error:
        return Verdict(Kind.INVALID, _first_line(error))
    if not all(np.isfinite(values).all() for values in one.values()):
        return Verdict(Kind.INVALID, "the numbers of one replica are not finite")
    try:
        several = of_several_replicas(draw)
    except Exception as error:
        return _of_error(draw, error)
    tolerance = tolerance_of(draw)
    found = [largest(differences(one, worker)) for worker in several]
    if max(size for _, size in found) <= tolerance:
        return Verdict(Kind.SAME)
    by_rounding = _made_by_rounding(draw, one)
    told = [
        largest({place: size for place, size in differences(one, worker).items()
                 if size > tolerance and by_rounding.get(place, 0.0) < _SHARE * size})
        for worker in several
    ]  # fmt: skip
    place, size = max(told, key=lambda difference: difference[1])
    if size > 0.0:
        return _of_difference(draw, f"{place}: {size:.3g}")
    place, size = max(found, key=lambda difference: difference[1])
    return Verdict(Kind.UNSTABLE, f"{place}: {size:.3g}")


def differences(one: Numbers, other: Numbers) -> dict[str, float]:
    """The largest difference at each place, relative where numbers are above 1; infinite where there is no other."""
    sizes = {}
    for place in one.keys() | other.keys():
        expected, received = one.get(place), other.get(place)
        if expected is None or received is None or expected.shape != received.shape:
            sizes[place] = np.inf
        elif expected.size:
            apart = np.abs(received - expected) / (1.0 + np.abs(expected))
            sizes[place] = float(np.where(np.isfinite(apart), apart, np.inf).max())
    return sizes


def largest(sizes: dict[str, float]) -> tuple[str, float]:
    """The place of the largest difference, and how large it is."""
    return max(sizes.items(), key=lambda difference: difference[1], default=("", 0.0))


def _of_difference(draw: Draw, line: str) -> Verdict:
    """Of a difference that moving the weights of one replica does not make.

    Where a gradient is zero but for rounding, as that of a bias before a BatchNormalization, several replicas round it
    otherwise than one ever does, and Adam makes steps of it. In float64 its epsilon is far above what is left.
    """
    if draw.precision == "float32" and judge(replace(draw, precision="float64")).kind is Kind.SAME:
        return Verdict(Kind.UNSTABLE, f"{line}, the same in float64")
    return Verdict(Kind.DIFFERENT, line)


def _made_by_rounding(draw: Draw, one: Numbers) -> dict[str, float]:
    """What moving the weights by a rounding error makes of the numbers of one replica, at each place."""
    size = _NUDGE[draw.precision]
    moved = [differences(one, of_one_replica(draw, (size, seed))) for seed in (1, 2, 3)]
    return {place: max(sizes.get(place, 0.0) for sizes in moved) for place in one}


def _of_error(draw: Draw, error: Exception) -> Verdict:
    if isinstance(error, MadeWholeError):
        return Verdict(Kind.MADE_WHOLE, str(error))
    line, details = _first_line(error), "".join(traceback.format_exception(error))[-6000:]
    is_refusal = isinstance(error, UnsupportedError) or "UnsupportedError" in line
    if isinstance(error, JobFailedError):
        refusals = [text for text in str(error).splitlines() if "UnsupportedError" in text or text.startswith("Error:")]
        is_refusal, line = bool(refusals), refusals[0] if refusals else line
    if not is_refusal:
        return Verdict(Kind.CRASHED, line, details)
    return Verdict(Kind.REFUSED if is_expected(draw, line) else Kind.REFUSED_UNEXPECTEDLY, line, details)


def _first_line(error: Exception) -> str:
    """The type, and the line of the text that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(_FRAMES)]
    return f"{type(error).__name__}: {(told or lines or [''])[0]}"[:400]


def _gist(line: str) -> str:
    """The line without names and numbers, which change with a draw."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|\d+", "", line)[:60]
