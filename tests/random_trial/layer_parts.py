"""Layers that are drawn: vectors of 6, sequences of 5 steps with 4 features, images of 6 x 6 with 3 channels."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.random_trial.draw import Part

ACTIVATIONS = ("tanh", "gelu", "softplus", "swish", "elu", "sigmoid", "selu", "mish")
"""Smooth ones: at the bend of others rounding decides."""

Weighed = tuple[int, Callable[[Random], Part]]


def first_of(start: str, rng: Random) -> tuple[Part, ...]:
    """What has to follow an input that is neither a vector, a sequence nor an image."""
    dense = Part("sparse", "vector", ('layers.Dense(6, activation="tanh")',))
    return {
        "tokens": (Part("tokens", "sequence", (f"layers.Embedding(20, 4, mask_zero={rng.random() < 0.6})",)),),
        "ragged": (Part("ragged", "sequence", ("DenseRagged()",)),),
        "sparse": (dense,),
    }.get(start, ())


def next_part(kind: str, rng: Random) -> Part:
    """A part that takes this kind of tensor."""
    weights, makers = zip(*_BY_KIND[kind], strict=True)
    return rng.choices(makers, weights)[0](rng)


def augmentation(rng: Random) -> Part:
    """Of images, before anything else; most compute in float32 alone."""
    return Part("image", "image", (rng.choice(_AUGMENTATIONS),))


def _one(takes: str, gives: str, *choices: str) -> Callable[[Random], Part]:
    return lambda rng: Part(takes, gives, (_filled(rng.choice(choices), rng),))


def _filled(text: str, rng: Random) -> str:
    """`ACT` becomes an activation, `SEED` a seed, `RATE` a rate of dropout."""
    text = text.replace("ACT", rng.choice(ACTIVATIONS)).replace("RATE", rng.choice(("0.1", "0.3", "0.5")))
    return text.replace("SEED", str(rng.randrange(1, 99)))


def _many(takes: str, gives: str, call: str, *makes: str) -> Callable[[Random], Part]:
    return lambda rng: Part(takes, gives, tuple(_filled(made, rng) for made in makes), call)


_VECTOR: list[Weighed] = [
    (6, _one("vector", "vector", 'layers.Dense(6, activation="ACT")')),
    (3, _one("vector", "vector",
             'layers.Dense(6, activation="ACT", kernel_regularizer="l2", bias_regularizer="l2")',
             'layers.Dense(6, activation="ACT", activity_regularizer=keras.regularizers.L2(0.01))',
             'layers.Dense(6, activation="ACT", kernel_regularizer="L1L2")',
             'layers.Dense(6, activation="ACT", kernel_constraint=keras.constraints.MaxNorm(1.0))',
             'layers.Dense(6, activation="ACT", trainable=False)',
             'layers.Dense(6, activation="ACT", lora_rank=2)',
             'layers.EinsumDense("ab,bc->ac", output_shape=(6,), bias_axes="c")')),
    (5, _one("vector", "vector", "layers.Dropout(RATE, seed=SEED)", "layers.AlphaDropout(RATE, seed=SEED)",
             "layers.GaussianDropout(RATE, seed=SEED)", "layers.GaussianNoise(RATE, seed=SEED)",
             "layers.Dropout(RATE)", "layers.Dropout(RATE, noise_shape=(None, 1), seed=SEED)",
             "layers.Dropout(RATE, noise_shape=(1, 6), seed=SEED)")),
    (5, _one("vector", "vector", "layers.BatchNormalization()", "layers.BatchNormalization(momentum=0.8, scale=False)",
             "layers.BatchNormalization(renorm=True)", "layers.BatchNormalization(synchronized=True)",
             "layers.LayerNormalization()", "layers.RMSNormalization()", "layers.UnitNormalization()",
             "layers.GroupNormalization(groups=3)",
             'layers.SpectralNormalization(layers.Dense(6, activation="ACT"))')),
    (2, _one("vector", "vector", "layers.PReLU()", "layers.Softmax()", "layers.ELU()", "layers.LeakyReLU()",
             "layers.ActivityRegularization(l2=0.01)", "layers.Rescaling(0.5, offset=0.1)",
             "layers.Lambda(lambda x: x * ops.sigmoid(x))")),
    (7, _one("vector", "vector", "Centered()", "GatheredRanks()", "MovingMean()", "Codebook()", "Mixed()",
             "CovarianceLoss()", "MeanLoss()", "SumLoss()", "VectorLoss()", "OwnNoise()", "SeededNoise()",
             "GeneratorNoise()", "Sampling()", "Folded()", "Shuffled()", "tfdist.gathered(Centered())",
             'layers.Dense(6, activation="ACT", activity_regularizer=penalty_of_pairs)',
             'layers.Dense(6, activation="ACT", activity_regularizer=penalty_of_means)')),
    (2, _one("vector", "vector",
             'keras.Sequential([layers.Dense(8, activation="ACT"), layers.Dropout(RATE, seed=SEED), layers.Dense(6)])',
             'keras.Sequential([layers.Dense(6), layers.BatchNormalization(), layers.Activation("ACT")])',
             'keras.Sequential([layers.Dense(6), MovingMean(), MeanLoss()])')),
    (2, _one("vector", "vector",
             'recomputed(lambda: layers.Dense(6, activation="ACT"))',
             "recomputed(lambda: layers.Dropout(RATE, seed=SEED))",
             'recomputed(layers.BatchNormalization)', 'recomputed(MeanLoss)', 'recomputed(MovingMean)',
             'recomputed(lambda: layers.Dense(6, activation="ACT", kernel_regularizer="l2"))',
             'recomputed(lambda: layers.GaussianNoise(RATE))')),
    (2, _many("vector", "vector", "{0}({0}({x}))", 'layers.Dense(6, activation="ACT")')),
    (1, _many("vector", "vector", "{1}({0}({1}({x})))", 'layers.Dense(6, activation="ACT")',
              "layers.Dropout(RATE, seed=SEED)")),
    (1, _many("vector", "vector", "{1}({0}({1}({x})))", 'layers.Dense(6, activation="ACT")',
              "layers.BatchNormalization()")),
    (2, _many("vector", "vector", "{1}([{x}, {0}({x})])", 'layers.Dense(6, activation="ACT")', "layers.Add()")),
    (1, _many("vector", "vector", "{2}({1}([{x}, {0}({x})]))", 'layers.Dense(4, activation="ACT")',
              "layers.Concatenate()", "layers.Dense(6)")),
    # Biases of one gradient.
    (1, _many("vector", "vector", "{2}([{0}({x}), {1}({x})])", 'layers.Dense(6, name="one")',
              'layers.Dense(6, name="other")', "layers.Add()")),
    (2, _many("vector", "sequence", "{1}({0}({x}))", 'layers.Dense(20, activation="ACT")', "layers.Reshape((5, 4))")),
    (1, _many("vector", "sequence", "{1}({0}({x}))", "layers.RepeatVector(5)", "layers.GRU(4, return_sequences=True)")),
    (1, _many("vector", "image", "{1}({0}({x}))", "layers.Dense(108)", "layers.Reshape((6, 6, 3))")),
]  # fmt: skip

_SEQUENCE: list[Weighed] = [
    (5, _one("sequence", "sequence", "layers.LSTM(4, return_sequences=True)",
             "layers.GRU(4, return_sequences=True, dropout=RATE, seed=SEED)",
             "layers.LSTM(4, return_sequences=True, recurrent_dropout=RATE, seed=SEED)",
             "layers.GRU(4, return_sequences=True, reset_after=False, unroll=True)",
             "layers.SimpleRNN(4, return_sequences=True, dropout=RATE)",
             "layers.Bidirectional(layers.GRU(2, return_sequences=True))",
             "layers.RNN([layers.GRUCell(3), layers.LSTMCell(4, dropout=RATE)], return_sequences=True)",
             'layers.LSTM(4, return_sequences=True, kernel_regularizer="l2")')),
    # Without the bias of the keys: its gradient is rounding alone, which optimizers that scale gradients make large.
    (4, _many("sequence", "sequence", "{0}({x}, {x})",
              "layers.MultiHeadAttention(2, 3, use_bias=False, dropout=RATE, seed=SEED)")),
    (1, _many("sequence", "sequence", "{0}({x}, {x}, use_causal_mask=True)",
              "layers.MultiHeadAttention(2, 3, use_bias=False)")),
    (1, _many("sequence", "sequence", "{0}([{x}, {x}])", "layers.Attention(use_scale=True, dropout=RATE, seed=SEED)")),
    (1, _many("sequence", "sequence", "{0}([{x}, {x}])", "layers.AdditiveAttention()")),
    (1, _many("sequence", "sequence", "{0}({x}, {x})",
              "layers.GroupQueryAttention(2, 4, 2, use_bias=False, dropout=RATE, seed=SEED)")),
    (3, _one("sequence", "sequence", 'layers.Conv1D(4, 3, padding="causal", activation="ACT")',
             'layers.DepthwiseConv1D(3, padding="same")', 'layers.SeparableConv1D(4, 3, padding="same")',
             'layers.TimeDistributed(layers.Dense(4, activation="ACT"))', 'layers.Dense(4, activation="ACT")',
             'layers.EinsumDense("abc,cd->abd", output_shape=(5, 4), bias_axes="d")',
             'layers.Conv1DTranspose(4, 3, padding="same")')),
    (3, _one("sequence", "sequence", "layers.SpatialDropout1D(RATE, seed=SEED)", "layers.Dropout(RATE, seed=SEED)",
             "layers.Dropout(RATE, noise_shape=(None, 1, 4), seed=SEED)", "layers.GaussianNoise(RATE)",
             "layers.TimeDistributed(layers.Dropout(RATE, seed=SEED))", "layers.GaussianDropout(RATE, seed=SEED)")),
    (3, _one("sequence", "sequence", "layers.BatchNormalization()", "layers.LayerNormalization()",
             "layers.GroupNormalization(groups=2)", "layers.RMSNormalization()",
             "layers.SpectralNormalization(layers.Conv1D(4, 1))", "layers.BatchNormalization(axis=1)")),
    (2, _one("sequence", "sequence", "layers.Masking()", "Block()", "FoldedTime(layers.Dense(4))",
             "FoldedTime(layers.BatchNormalization())", "FoldedTime(layers.Dropout(0.3, seed=SEED))", "TimeFirst()",
             "Centered()", "Mixed()", "MeanLoss()", "SumLoss()")),
    (1, _one("sequence", "sequence", "recomputed(lambda: layers.LSTM(4, return_sequences=True))",
             "recomputed(Block)", 'recomputed(lambda: layers.Conv1D(4, 3, padding="causal", activation="ACT"))')),
    (2, _one("sequence", "sequence", "keras.Sequential([layers.LSTM(3, return_sequences=True), layers.Dense(4)])")),
    (2, _many("sequence", "sequence", "{1}([{x}, {0}({x})])", "layers.GRU(4, return_sequences=True)", "layers.Add()")),
    (2, _one("sequence", "vector", "layers.LSTM(6, dropout=RATE, seed=SEED)", "layers.GRU(6)",
             "layers.Bidirectional(layers.LSTM(3))", "layers.SimpleRNN(6, recurrent_dropout=RATE, seed=SEED)")),
    (2, _many("sequence", "vector", "{1}({0}({x}))", "layers.GlobalAveragePooling1D()",
              'layers.Dense(6, activation="ACT")')),
    (1, _many("sequence", "vector", "{1}({0}({x}))", "layers.GlobalMaxPooling1D()", "layers.Dense(6)")),
    (1, _many("sequence", "vector", "{1}({0}({x}))", "layers.Flatten()", "layers.Dense(6)")),
]  # fmt: skip

_IMAGE: list[Weighed] = [
    (5, _one("image", "image", 'layers.Conv2D(3, 3, padding="same", activation="ACT")',
             'layers.DepthwiseConv2D(3, padding="same", activation="ACT")',
             'layers.SeparableConv2D(3, 3, padding="same", activation="ACT")',
             'layers.Conv2DTranspose(3, 3, padding="same", activation="ACT")',
             'layers.Conv2D(3, 3, padding="same", dilation_rate=2, kernel_regularizer="l2")')),
    (4, _one("image", "image", "layers.BatchNormalization()", "layers.BatchNormalization(momentum=0.8)",
             "layers.GroupNormalization(groups=3)", "layers.LayerNormalization()",
             'layers.SpectralNormalization(layers.Conv2D(3, 3, padding="same"))')),
    (1, _one("image", "image", 'recomputed(lambda: layers.Conv2D(3, 3, padding="same", activation="ACT"))',
             "recomputed(lambda: layers.BatchNormalization(momentum=0.8))")),
    (3, _one("image", "image", "layers.SpatialDropout2D(RATE, seed=SEED)", "layers.Dropout(RATE, seed=SEED)",
             "layers.GaussianNoise(RATE, seed=SEED)", "Centered()", "Mixed()", "MeanLoss()")),
    (2, _many("image", "image", "{1}({0}({x}))", "layers.MaxPooling2D(2)", "layers.UpSampling2D(2)")),
    (2, _many("image", "image", "{1}({0}({x}))", "layers.AveragePooling2D(2)", "layers.UpSampling2D(2)")),
    (2, _many("image", "image", "{2}([{x}, {1}({0}({x}))])", 'layers.Conv2D(3, 3, padding="same")',
              "layers.BatchNormalization()", "layers.Add()")),
    (3, _many("image", "vector", "{1}({0}({x}))", "layers.GlobalAveragePooling2D()",
              'layers.Dense(6, activation="ACT")')),
    (1, _many("image", "vector", "{1}({0}({x}))", "layers.Flatten()", 'layers.Dense(6, activation="ACT")')),
    (1, _many("image", "sequence", "{2}({1}({0}({x})))", "layers.Reshape((6, 18))", "layers.Cropping1D((0, 1))",
              'layers.Dense(4, activation="ACT")')),
]  # fmt: skip

_BY_KIND = {"vector": _VECTOR, "sequence": _SEQUENCE, "image": _IMAGE}

_AUGMENTATIONS = (
    "layers.RandomBrightness(0.3, value_range=(0.0, 1.0), seed=3)",
    "layers.RandomContrast(0.5, value_range=(0.0, 1.0), seed=3)",
    "layers.RandomErasing(value_range=(0.0, 1.0), seed=3)",
    "layers.RandomFlip(seed=3)",
    "layers.RandomGrayscale(seed=3)",
    "layers.RandomHue(0.3, value_range=(0.0, 1.0), seed=3)",
    "layers.RandomRotation(0.2, seed=3)",
    "layers.RandomSaturation(0.4, value_range=(0.0, 1.0), seed=3)",
    "layers.RandomShear(0.3, 0.3, seed=3)",
    "layers.RandomTranslation(0.2, 0.2, seed=3)",
    "layers.RandomZoom(0.2, seed=3)",
    "layers.MixUp(seed=3)",
    "layers.CutMix(seed=3)",
    "layers.RandAugment(value_range=(0.0, 1.0), seed=3)",
)
