"""Effects of rounding on a training, measured by a second run on one replica with perturbed weights.

Where gradients are rounding alone (the bias of a layer before a normalization, of the keys of attention), optimizers
that scale them take steps as large as elsewhere, in a direction of their own in each run: such weights can never be
compared. Other trainings multiply a rounding error with every step. Both show here, for the very model.
"""

from __future__ import annotations

from tfdist.training.probes.probe_files import Recording
from tfdist.verify.replicas.recording_comparison import ComparedMoment, Comparison, compare
from tfdist.verify.replicas.tolerance import FLOAT32, HALF, QuantityKind, Tolerance

_REPRODUCED = {False: 1e-3, True: 0.2}
"""A first step that differs by more, in float32 and in 16 bits, has another cause than rounding."""


def reproduced(reference: Recording, perturbed: Recording, *, half: bool) -> Comparison:
    """Compares what two runs on one replica must have in common: initial weights, data, nearly the first step, length.

    Args:
        reference: The recording on one replica.
        perturbed: The recording of the same run with weights moved after they were first recorded.
        half: Whether layers compute in 16 bits.
    """
    rows = compare(reference, [perturbed], Tolerance(_REPRODUCED[half], half=half)).rows
    first: tuple[QuantityKind, ...] = ("data", "loss", "gradient norm", "steps")
    later: tuple[QuantityKind, ...] = ("data", "steps")
    kinds: list[tuple[QuantityKind, ...]] = [("weights", "steps"), first, *[later] * len(rows)]
    return Comparison(tuple(ComparedMoment(row.step, tuple(row.of(*of))) for row, of in zip(rows, kinds, strict=False)))


def measure_tolerance(reference: Recording, perturbed: Recording, *, half: bool) -> Tolerance:
    """The tolerance for everything that is compared with `reference`."""
    least = HALF if half else FLOAT32
    worst: dict[tuple[QuantityKind, str], float] = {}
    measured = {}
    for number, row in enumerate(compare(reference, [perturbed], Tolerance(least)).rows):
        for difference in row.differences:
            key = (difference.kind, difference.name)
            # That a number agrees once does not mean that rounding never moves it.
            worst[key] = max(worst.get(key, 0.0), difference.relative)
            measured[(number, *key)] = worst[key]
    return Tolerance(least, half, measured)
