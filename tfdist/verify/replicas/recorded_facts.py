"""Facts of a model that explain a difference, as they were recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ModelFacts:
    """Facts of the models of a run, as `keras_repairs.model_checks.model_facts` finds them."""

    unsynchronized: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    compute_dtypes: tuple[str, ...] = ()
    non_trainable: tuple[str, ...] = ()
    accumulates: bool = False

    @classmethod
    def of(cls, models: Sequence[Mapping[str, Any]]) -> ModelFacts:
        """The facts of all models that a run trained, together."""

        def every(key: str) -> tuple[str, ...]:
            return tuple(dict.fromkeys(item for model in models for item in model[key]))

        return cls(
            every("unsynchronized"),
            every("overrides"),
            every("compute_dtypes"),
            every("non_trainable"),
            any(model["accumulates"] for model in models),
        )

    @property
    def half(self) -> bool:
        """True if layers compute in 16 bits."""
        return bool({"float16", "bfloat16"} & set(self.compute_dtypes))
