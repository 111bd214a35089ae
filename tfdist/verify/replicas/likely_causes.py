"""Likely causes of a difference, each with its remedy, from where the runs part and what was recorded of the model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tfdist.launch.worker_options import Compression
from tfdist.verify.replicas.recording_comparison import ComparedMoment, Comparison

_SHOWN = 4
Versus = Literal["again", "replicas", "xla", "precision", "communication"]
"""The way the other run differs: not at all, in its replicas, in XLA on or off, in precision, in its collectives."""
_NEAR = 0.2
"""The distance that a ratio may have from R or 1/R: uneven batches move it."""
_ROUNDED, _GROWN = 1e-4, 1e-2
"""A first difference below these may come from rounding: in the first step, and in one after it."""


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


@dataclass(frozen=True)
class Cause:
    """A likely cause.

    Attributes:
        key: A short name, for programs.
        text: What it is, and what to do.
    """

    key: str
    text: str


def statistics(facts: ModelFacts) -> Cause:
    """There are normalizations with statistics of each replica's own."""
    return Cause(
        "batch statistics",
        f"BatchNormalization whose statistics are each replica's own: {_named(facts.unsynchronized)}. Leave out "
        "--batch-norm replica (batch_norm: replica in a config) for statistics of the global batch.",
    )


def metric(names: Sequence[str]) -> Cause:
    """Only metrics differ."""
    return Cause(
        "metric",
        f"a metric that is no sum over samples: {_named(names)}. Keras adds up the states of the replicas. Write it "
        "with sums, or declare it with tfdist.gathered(...). (A difference of one sample is a prediction near a tie, "
        "which rounding turned.)",
    )


def own_step(facts: ModelFacts, factor: float | None, replicas: int) -> Cause:
    """A custom `train_step` trains; `factor` is R or 1/R if the numbers are off by that, else None."""
    steps = _named(facts.overrides)
    if factor:
        return Cause(
            "own step scales",
            f"{steps} reduces or scales by itself: gradients or loss are {_times(factor, replicas)} those of one "
            "replica. tfdist already sums gradients over the replicas and takes a loss for a mean over samples: leave "
            "out divisions by the number of replicas and all_reduce, and declare a sum with tfdist.summed(...).",
        )
    return Cause(
        "own step",
        f"{steps} computes something that does not add up over the replicas: each sees its own samples only. A loss "
        "there must be a mean over samples, or a sum declared with tfdist.summed(...).",
    )


def summed(factor: float, replicas: int) -> Cause:
    """Keras's own step trains, and the numbers are off by `factor`, R or 1/R."""
    return Cause(
        "summed",
        "a loss or add_loss term that is a sum over samples and returned as a scalar: "
        f"{_times(factor, replicas)} that of one replica. tfdist takes a scalar for a mean over samples; return one "
        "value a sample, or declare the sum with tfdist.summed(...).",
    )


def compressed(dtype: str) -> Cause:
    """Workers send gradients in 16 bits."""
    beyond = ", or gradients leave its range, for which there is --compression bfloat16" if dtype == "float16" else ""
    return Cause(
        "compression",
        f"the rounding of gradients to {dtype}, in which workers send them: this training multiplies it{beyond}. Leave "
        "out --compression, or compare fewer steps.",
    )


def state(paths: Sequence[str]) -> Cause:
    """Only weights that no optimizer trains differ."""
    return Cause(
        "state",
        f"a layer that changes its own state from the samples it sees: {_named(paths)}. Each replica sees its own: "
        "update the state from numbers that tfdist.all_reduce or a synchronized layer takes over all replicas.",
    )


INITIALISATION = {
    True: Cause(
        "initialisation",
        "an initialisation without a seed: on one replica, too, the weights start differently in each run. Draw them "
        "from Keras's or NumPy's generators, which tfdist seeds, or load them from a file.",
    ),
    False: Cause(
        "initialisation",
        "an initialisation without a seed, or one that depends on the number of replicas or on the process: the "
        "weights differ before the first step.",
    ),
}

DATA = {
    True: Cause(
        "data",
        "a dataset that is not deterministic: on one replica, too, each run trains on other samples. Seed what "
        "shuffles, augments or generates. In a parallel map of tf.data, random operations draw in any order: use the "
        "stateless ones there, with a seed for each sample.",
    ),
    False: Cause(
        "data",
        "a dataset that depends on the process or on the number of replicas: the samples of the same step differ. Give "
        "every worker the same global batches in the same order, and let tfdist cut them.",
    ),
}

COPIES = Cause(
    "copies",
    "something that changes weights on one worker or replica alone, such as a callback or a branch on "
    "tfdist.is_chief(): the replicas' copies of the model have parted.",
)

STEPS = {
    True: Cause(
        "steps",
        "a training whose length changes from run to run, on one replica, too: a limit of time, data of another number "
        "of batches each time, or early stopping that rounding decides. Give it a fixed number of steps.",
    ),
    False: Cause(
        "steps",
        "an epoch whose length depends on the process or on the number of replicas: the runs trained for different "
        "numbers of steps.",
    ),
}

IRREPRODUCIBLE = Cause(
    "irreproducible",
    "random numbers without a seed inside the model, its loss or its data: on one replica, too, two runs differ. Use "
    "keras.random with a SeedGenerator. On a GPU, some operations add up in any order.",
)

OVERFLOW = Cause(
    "float16",
    "float16: gradients overflowed in one of the runs alone, which then skipped its step. That is rounding at the end "
    "of float16's range. Compare in float32 or bfloat16.",
)

OTHERS: Mapping[str, Cause] = {
    "xla": Cause(
        "xla",
        "XLA, which computes some operation of the model differently, as it may for rounding, random numbers and "
        "values that are not finite.",
    ),
    "precision": Cause(
        "precision",
        "16 bits, which are too few somewhere in the model: let the layers where it parts compute in float32 (such as "
        'the last one and its softmax, with dtype="float32").',
    ),
    "communication": Cause(
        "communication",
        "the collectives, which summed the same gradients differently. Please report it, with the versions of "
        "TensorFlow, NCCL and the driver.",
    ),
}

WHOLE_BATCH = Cause(
    "whole batch",
    "a layer or a loss that uses the whole batch, such as its mean, its maximum or all pairs of samples (a contrastive "
    "loss): data and weights are the same, and each replica sees its own samples only.",
)
HALF = Cause("16 bits", "rounding to 16 bits. Compare in float32, where it is a hundred thousand times smaller.")

ROUNDING = Cause(
    "rounding",
    "rounding, perhaps, that this training multiplies from step to step. Compare fewer steps, a smaller learning rate, "
    "or float64 (keras.config.set_floatx).",
)

UNKNOWN = Cause(
    "unknown",
    "nothing known about the model explains it: look at what uses the numbers of a whole batch, and at what depends on "
    "the number of replicas.",
)


def _times(factor: float, replicas: int) -> str:
    return f"{replicas} times" if factor > 1 else f"1/{replicas} of"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def likely_causes(
    comparison: Comparison, facts: ModelFacts, versus: Versus, replicas: int, compression: Compression = "none"
) -> list[Cause]:
    """The most likely causes of a difference, the likeliest first; empty when there is none.

    Args:
        versus: How the other run differs.
        compression: The type in which its workers send gradients; "none" for their own.
    """
    row, first = comparison.first_row, comparison.first()
    if row is None or first is None:
        return []
    if first.kind == "weights" and row is comparison.rows[0]:
        return [INITIALISATION[versus == "again"]]
    if first.kind == "data":
        return [DATA[versus == "again"]]
    if first.kind == "copies":
        names = [difference.name for difference in row.parted("copies")]
        is_statistics = facts.unsynchronized and set(names) <= set(facts.non_trainable)
        return [statistics(facts) if is_statistics else COPIES]
    if first.kind == "steps":
        return [STEPS[versus == "again"]]
    if "float16" in facts.compute_dtypes and _overflowed_once(comparison):
        return [OVERFLOW]
    if versus == "again":
        return [IRREPRODUCIBLE]
    if versus in OTHERS:
        return [OTHERS[versus]]
    return _of_replicas(comparison, row, facts, replicas, compression)


def _of_replicas(
    comparison: Comparison, row: ComparedMoment, facts: ModelFacts, replicas: int, compression: Compression
) -> list[Cause]:
    if all(difference.kind == "metrics" for each in comparison.rows for difference in each.parted()):
        return [metric([difference.name for difference in row.parted("metrics")])]
    if facts.unsynchronized and comparison.first("loss", "gradient norm", "weights"):
        return [statistics(facts)]
    factor = _factor(row, replicas)
    if facts.overrides:
        return [own_step(facts, factor, replicas)]
    paths = [difference.name for difference in row.parted("weights")]
    if not row.parted("loss", "gradient norm") and paths and set(paths) <= set(facts.non_trainable):
        return [state(paths)]
    if factor:
        return [summed(factor, replicas)]
    is_first = row is _first_trained(comparison)
    if compression != "none" and not (is_first and row.parted("loss")):
        return [compressed(compression)]
    if facts.half:
        return [HALF]
    largest = max(difference.relative for difference in row.parted())
    if is_first and largest >= _ROUNDED:
        return [WHOLE_BATCH if row.parted("loss") else UNKNOWN]
    return [ROUNDING] if largest < _GROWN else [UNKNOWN]


def _first_trained(comparison: Comparison) -> ComparedMoment | None:
    return next((row for row in comparison.rows if row.of("loss", "gradient norm")), None)


def _overflowed_once(comparison: Comparison) -> bool:
    parted = comparison.first("gradient norm")
    if parted is None or parted.reference is None or parted.other is None:
        return False
    return math.isfinite(parted.reference) != math.isfinite(parted.other)


def _factor(row: ComparedMoment, replicas: int) -> float | None:
    """R or 1/R where a row's gradient norm, or else its loss, is that much of the reference's."""
    for difference in row.parted("gradient norm") or row.parted("loss"):
        if difference.reference and difference.other and math.isfinite(difference.relative):
            ratio = difference.other / difference.reference
            for factor in (replicas, 1 / replicas):
                if abs(ratio / factor - 1) < _NEAR:
                    return factor
    return None
