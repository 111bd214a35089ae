"""Request of `tfdist prune`: what its workers measure once the model is pruned. Nothing here loads TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PruningRequest:
    """A request about a pruning: what is measured beside the model from before, and where it goes.

    Attributes:
        path: The file to make; absolute.
        pruned: The weights of the pruned model, a file on the chief's machine.
        structure: What was pruned together, as `Structure.of` reads it.
        max_drop: How much worse the metric may have become, as `DropBudget.of` reads it; None for any drop.
        metric: The metric to judge by; None for the model's first.
    """

    path: str
    pruned: str
    structure: str
    max_drop: str | None = None
    metric: str | None = None
