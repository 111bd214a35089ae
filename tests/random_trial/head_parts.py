"""Outputs that are drawn: targets, losses and metrics that fit each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.random_trial.draw import Head, Part

REDUCTIONS = ("", "", "", 'reduction="sum"', 'reduction="mean"', 'reduction="mean_with_sample_weight"')


@dataclass(frozen=True)
class Kind:
    """Outputs of one kind.

    Attributes:
        last: The last layer.
        target: An expression that makes targets.
        losses: Names of Keras's losses that fit, with arguments; `*` becomes a reduction or nothing.
        own: Losses of people's own that fit.
        metrics: That are continuous in the predictions.
        steps: Metrics that jump: in 16 and 32 bits rounding decides.
        has_unit_length: Whether the vectors of the last layer are brought to the length one.
    """

    last: str
    target: str
    losses: tuple[str, ...]
    own: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    has_unit_length: bool = False


_OF_BATCHES = ("mean_of_errors", "largest_error", "spread_of_batch", "tfdist.gathered(largest_error)")
"""Metrics that are one number a batch, and take no weights of samples."""

_OWN_METRICS = ("sample_errors", *_OF_BATCHES, "SumMetric()", "LargestMetric()", "BatchMeans()", "PairMetric()")

KINDS = {
    "numbers": Kind(
        "layers.Dense(6)",
        "rng.normal(size=(SAMPLES, 6))",
        ("MeanSquaredError(*)", "MeanAbsoluteError(*)", "Huber(*)", "LogCosh(*)", "CosineSimilarity(*)",
         "CosineSimilarity(axis=0)"),
        ("sample_errors", "mean_of_errors", "sum_of_errors", "error_of_means", "valid_mean", "clip_loss",
         "simclr_loss", "ranking_loss", "loss_of_variances", "sum_over_pairs", "WeighedErrors()",
         "tfdist.gathered(largest_error)",
         "tfdist.summed(sum_of_errors)", "tfdist.averaged(mean_of_errors)"),
        ("keras.metrics.R2Score()", "keras.metrics.RootMeanSquaredError()", "keras.metrics.PearsonCorrelation()",
         "keras.metrics.ConcordanceCorrelation()", '"mae"', "keras.metrics.CosineSimilarity()", *_OWN_METRICS),
    ),
    "positive": Kind(
        'layers.Dense(2, activation="softplus")',
        "rng.uniform(0.5, 2.0, (SAMPLES, 2))",
        ("Poisson(*)", "MeanAbsolutePercentageError(*)", "MeanSquaredLogarithmicError(*)"),
        ("sample_errors", "mean_of_errors"),
        ("keras.metrics.Poisson()", '"mape"', *_OWN_METRICS),
    ),
    "one_hot": Kind(
        'layers.Dense(4, activation="softmax")',
        "np.eye(4)[rng.integers(0, 4, SAMPLES)]",
        ("CategoricalCrossentropy(*)", "CategoricalFocalCrossentropy(*)", "KLDivergence(*)", "CategoricalHinge(*)",
         "Dice()", "Tversky()", "CategoricalCrossentropy(label_smoothing=0.1)"),
        ("sample_errors", "error_of_means"),
        ("keras.metrics.CategoricalCrossentropy()", "SumMetric()", "BatchMeans()"),
        ('"accuracy"', "keras.metrics.F1Score()", "keras.metrics.OneHotMeanIoU(4)", "keras.metrics.AUC()",
         "keras.metrics.TopKCategoricalAccuracy(2)", "keras.metrics.FBetaScore(beta=2.0)"),
    ),
    "classes": Kind(
        'layers.Dense(4, activation="softmax")',
        "rng.integers(0, 4, SAMPLES)",
        ("SparseCategoricalCrossentropy(*)", "SparseCategoricalCrossentropy(ignore_class=1)",
         "CategoricalGeneralizedCrossEntropy(*)"),
        (),
        ("keras.metrics.SparseCategoricalCrossentropy()", "SumMetric()"),
        ('"accuracy"', "keras.metrics.SparseTopKCategoricalAccuracy(2)",
         "keras.metrics.MeanIoU(4, sparse_y_pred=False)"),
    ),
    "binary": Kind(
        'layers.Dense(1, activation="sigmoid")',
        'rng.integers(0, 2, (SAMPLES, 1)).astype("float64")',
        ("BinaryCrossentropy(*)", "BinaryFocalCrossentropy(*)", "Dice()", "Tversky()"),
        ("sample_errors", "ranking_loss"),
        ("keras.metrics.BinaryCrossentropy()", "LargestMetric()"),
        ('"accuracy"', "keras.metrics.AUC()", "keras.metrics.Precision()", "keras.metrics.Recall()",
         "keras.metrics.FalseNegatives()", "keras.metrics.TruePositives(thresholds=[0.4, 0.5])",
         "keras.metrics.PrecisionAtRecall(0.5)", "keras.metrics.SpecificityAtSensitivity(0.5)"),
    ),
    "signs": Kind(
        'layers.Dense(1, activation="tanh")',
        "2.0 * rng.integers(0, 2, (SAMPLES, 1)) - 1.0",
        ("Hinge(*)", "SquaredHinge(*)", "MeanSquaredError(*)"),
        ("mean_of_errors",),
        ("keras.metrics.Hinge()", "keras.metrics.SquaredHinge()"),
    ),
    "embedding": Kind("layers.Dense(4)", "rng.integers(0, 4, SAMPLES)", ("Circle(gamma=4)",), has_unit_length=True),
}  # fmt: skip
"""Outputs for each sample."""

STEPS = Kind(
    'layers.Dense(4, activation="softmax")',
    "rng.integers(0, 4, (SAMPLES, 5))",
    ("SparseCategoricalCrossentropy(*)", "SparseCategoricalCrossentropy(ignore_class=1)"),
    (),
    ("keras.metrics.SparseCategoricalCrossentropy()",),
    ('"accuracy"',),
)
"""A class for each time step."""

TRANSCRIPT = Kind("layers.Dense(4)", "rng.integers(1, 4, (SAMPLES, 2))", ("CTC()",))
PIXELS = Kind(
    'layers.Conv2D(1, 1, activation="sigmoid")',
    'rng.integers(0, 2, (SAMPLES, 6, 6, 1)).astype("float64")',
    ("BinaryCrossentropy(*)", "Dice()", "Tversky(alpha=0.3, beta=0.7)", "BinaryFocalCrossentropy(*)",
     "Dice(axis=(1, 2, 3))"),
    ("sample_errors", "mean_of_errors"),
    ("keras.metrics.BinaryCrossentropy()",),
    ('"accuracy"', "keras.metrics.BinaryIoU()"),
)  # fmt: skip


def head(name: str, kind: str, rng: Random, *, is_weighted: bool, may_jump: bool) -> Head:
    """An output of a tensor of this kind, with targets, a loss and metrics.

    Args:
        name: Of the output.
        kind: Of the tensor.
        rng: What is drawn.
        is_weighted: Whether samples have weights.
        may_jump: Whether metrics may be such that rounding decides.
    """
    whole = {"sequence": (STEPS, TRANSCRIPT), "image": (PIXELS,)}.get(kind, ())
    if whole and rng.random() < 0.5:
        drawn = rng.choice(whole)
        part = Part(kind, "same", (_named(drawn.last, name),))
    else:
        drawn = KINDS[rng.choice(list(KINDS))]
        part = _of_samples(kind, drawn, name)
    metrics = drawn.metrics + (drawn.steps if may_jump else ())
    chosen = rng.sample(metrics, min(len(metrics), rng.choice((0, 0, 1, 2))))
    weighed = [metric for metric in chosen if rng.random() < 0.3 and metric not in _OF_BATCHES]
    made = Head(
        name=name,
        part=part,
        target=drawn.target,
        plain=_plain(drawn),
        loss=_loss(drawn, rng),
        loss_weight=rng.choice((1.0, 1.0, 0.3)),
        metrics=tuple(metric for metric in chosen if metric not in weighed),
        weighted_metrics=tuple(weighed),
    )
    if not is_weighted:
        return made
    if drawn is not STEPS:
        return replace(made, weight="numbered(rng, SAMPLES)")
    # One for each sample would be multiplied with the steps, where a batch has as many samples as there are steps.
    return replace(made, weight=f"rng.exponential(size=(SAMPLES, {5 if rng.random() < 0.5 else 1}))")


def has_classes(head: Head) -> bool:
    """Whether the output tells one of some classes, to which `fit` can give weights."""
    return head.target == KINDS["classes"].target and head.plain == _plain(KINDS["classes"])


def _plain(drawn: Kind) -> str:
    """The first of its losses, as it is."""
    return f"keras.losses.{drawn.losses[0].replace('*', '')}"


def _named(layer: str, name: str) -> str:
    return f'{layer[:-1]}{"" if layer.endswith("()") else ", "}name="{name}")'


def _of_samples(kind: str, drawn: Kind, name: str) -> Part:
    """From a tensor of a kind to the output, one row a sample."""
    makes = [drawn.last, "layers.UnitNormalization()"] if drawn.has_unit_length else [drawn.last]
    makes[-1] = _named(makes[-1], name)
    if kind != "vector":
        makes.insert(0, "layers.Flatten()")
    call = "{x}"
    for number in range(len(makes)):
        call = f"{{{number}}}({call})"
    return Part("any", "same", tuple(makes), call)


def _loss(drawn: Kind, rng: Random) -> str:
    if drawn.own and rng.random() < 0.4:
        return rng.choice(drawn.own)
    return f"keras.losses.{rng.choice(drawn.losses).replace('*', rng.choice(REDUCTIONS))}"
