"""Texts of the likely causes of a difference, each with its remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfdist.verify.replicas.recorded_facts import ModelFacts

_SHOWN = 4


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
