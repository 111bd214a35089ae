"""Steps that are drawn: classes of models, see `own_steps`."""

from __future__ import annotations

STEPS = (
    *("OwnStep", "SharpStep", "ClippedStep", "NormStep", "SummingStep", "SurgeryStep"),
    *("MixedStep", "FollowingStep", "MakingStep", "PairStep"),
)

OF_NUMBERS = ("MixedStep",)
"""Those that compute with what the model is given, which are to be numbers."""
