"""What a draw consists of: pieces of source, so that what is run, made smaller and printed is one and the same."""

from __future__ import annotations

from dataclasses import dataclass

INPUTS = {
    "vector": ("keras.Input((6,))", "rng.normal(size=(SAMPLES, 6))"),
    "sequence": ("keras.Input((5, 4))", "sequences(rng, SAMPLES)"),
    "image": ("keras.Input((6, 6, 3))", "rng.uniform(size=(SAMPLES, 6, 6, 3))"),
    "tokens": ('keras.Input((5,), dtype="int64")', "tokens(rng, SAMPLES)"),
    "sparse": ("keras.Input((6,), sparse=True)", "sparse_rows(rng, SAMPLES)"),
    "ragged": ('keras.Input((None,), dtype="int64", ragged=True)', "ragged_rows(rng, SAMPLES)"),
}
"""How a model takes a kind of tensor, and how such data is made. Between layers are vectors, sequences and images."""

PLAIN_DATASETS = ("dataset", "dropped", "unknown")
"""Ways of data that are a `tf.data.Dataset` with an end and an order."""

FEEDS = ("arrays", "dataset", "shuffled", "dropped", "unknown", "repeated", "generator", "py_dataset")


@dataclass(frozen=True)
class Part:
    """Layers, and how a tensor goes through them.

    Attributes:
        takes: The kind of tensor that comes in.
        gives: The kind that goes out.
        makes: Expressions that make the layers.
        call: An expression of the tensor `{x}` and the layers `{0}`, `{1}`…
    """

    takes: str
    gives: str
    makes: tuple[str, ...]
    call: str = "{0}({x})"

    @property
    def is_one_layer(self) -> bool:
        """Whether `keras.Sequential` can hold it."""
        return len(self.makes) == 1 and self.call == "{0}({x})"


@dataclass(frozen=True)
class Head:
    """An output with its targets.

    Attributes:
        name: Of its last layer and its output.
        part: From the last tensor to the output.
        target: An expression that makes the targets.
        plain: The least of losses that fits the output.
        loss: The loss that was drawn.
        loss_weight: Its weight among the losses.
        metrics: Expressions.
        weighted_metrics: Expressions of metrics that take sample weights.
        weight: An expression of the sample weights, or nothing.
    """

    name: str
    part: Part
    target: str
    plain: str
    loss: str
    loss_weight: float = 1.0
    metrics: tuple[str, ...] = ()
    weighted_metrics: tuple[str, ...] = ()
    weight: str = ""


@dataclass(frozen=True)
class Draw:
    """A training, complete.

    Attributes:
        seed: What it was drawn from.
        replicas: How many there are.
        is_of_workers: Whether each is a process of its own.
        precision: `float64`, `float32` or `mixed_bfloat16`.
        form: `functional`, `sequential`, `subclassed` or `own_step`.
        start: The kind of input.
        parts: From the input on; each takes what the one before gives.
        heads: Outputs.
        optimizer: An expression.
        compiled: More options of `compile`, by name.
        feed: How the data comes, one of FEEDS.
        samples: How many there are.
        batch: The global batch.
        epochs: How often.
        fitted: More options of `fit`, by name.
        callbacks: Expressions.
        step: The class of the model where its form is `own_step`.
    """

    seed: int
    replicas: int
    is_of_workers: bool
    precision: str
    form: str
    start: str
    parts: tuple[Part, ...]
    heads: tuple[Head, ...]
    optimizer: str
    compiled: tuple[tuple[str, str], ...]
    feed: str
    samples: int
    batch: int
    epochs: int
    fitted: tuple[tuple[str, str], ...]
    callbacks: tuple[str, ...]
    step: str = "OwnStep"

    def __post_init__(self) -> None:
        kind = self.start
        for part in (*self.parts, self.heads[0].part):
            if part.takes not in (kind, "any"):
                raise ValueError(f"{part} takes no {kind}.")
            kind = part.gives if part.gives != "same" else kind
        if self.form == "sequential" and (len(self.heads) > 1 or not all(part.is_one_layer for part in self.parts)):
            raise ValueError("A Sequential model has one output and one layer after another.")
        if self.start in ("sparse", "ragged") and self.feed not in PLAIN_DATASETS:
            raise ValueError(f"{self.start} rows come from tf.data here.")

    @property
    def steps(self) -> int:
        """Of an epoch."""
        return -(-self.samples // self.batch)
