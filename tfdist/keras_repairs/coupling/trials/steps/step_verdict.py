"""The verdict of a trial on a step of the user's."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tfdist.keras_repairs.base.step_records import KnownUpdate, Mode
from tfdist.text import safe_str


class Cause(enum.Enum):
    """The finding of a trial."""

    EXACT = "as on one replica"
    SUM = "a sum over the samples"
    COUPLED = "neither a mean nor a sum over the samples"
    ASSIGNED = "depends on the samples"
    SHARED = "one variable for all replicas"
    ADDED_UP = "a variable that adds up what replicas assign"
    UNEQUAL = "right with equal shares alone"
    BRANCH = "chooses by the samples"
    WRITTEN = "written of a part of the batch"
    UNBUILT = "found out too late"
    FAILED = "could not be tried out"


@dataclass(frozen=True)
class StepVerdict:
    """The verdict of a trial on a step.

    Attributes:
        cause: What is found of it.
        what: What of it is so, as a noun, or why it could not be tried out.
        is_of_gradients: Whether that is the gradients.
        draws_several: Whether it drew several times the rows of the batch.
        mode: How replicas have to share it out.
        updates: What it has shown of the updates of means and sums of metrics, by the metric's id, in their order.
        gathered: What replicas gather in it; see `ReplicaStep`.
        has_constants: Whether it returns a tensor that is the same for any samples.
        needs_equal_shares: Whether all of this is so only while all replicas have as many samples.
    """

    cause: Cause = Cause.EXACT
    what: str = ""
    is_of_gradients: bool = False
    draws_several: bool = False
    mode: Mode = Mode()
    updates: Mapping[int, Sequence[KnownUpdate]] = field(default_factory=dict)
    gathered: Sequence[tuple[bool, ...]] = ()
    has_constants: bool = False
    needs_equal_shares: bool = False


def failed(error: Exception) -> StepVerdict:
    """The verdict on a step that cannot be tried out."""
    text = safe_str(error).strip()
    # Of an error in a layer's call Keras prints the reason in bold, between the layer's name and its arguments.
    _, _, bold = text.partition("\x1b[1m")
    lines = [line.strip() for line in (bold.partition("\x1b[0m")[0].strip() or text).splitlines()] or [""]
    # Where a graph was traced, TensorFlow puts the place first.
    text = lines[-1] if lines[0].startswith("in user code") else lines[0]
    return StepVerdict(Cause.FAILED, f"{type(error).__name__}: {text}")
