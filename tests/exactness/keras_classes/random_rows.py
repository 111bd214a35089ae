"""Layers that draw random numbers while they train, and augmentations of images."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import keras

from tests.exactness.keras_classes.rows import Row, layer

layers = keras.layers


def _image(name: str, *args: Any, **options: Any) -> Row:
    """An augmentation of images with values from 0 to 1. Several fail in float64, and where it is the default."""
    return replace(layer(name, "image", *args, **options, dtype="float32"), is_trained_before=False)


_UNIT = {"value_range": (0.0, 1.0), "seed": 3}

NOISE = (
    *(layer(name, "vector", 0.3, seed=3) for name in ("AlphaDropout", "Dropout", "GaussianDropout", "GaussianNoise")),
    *(layer(f"SpatialDropout{n}D", on, 0.3, seed=3) for n, on in ((1, "sequence"), (2, "image"), (3, "volume"))),
)

AUGMENTATIONS = (
    _image("AutoContrast", value_range=(0.0, 1.0)),
    _image("ContrastLimitedAdaptiveHistogramEqualization", value_range=(0.0, 1.0), tile_grid_size=(2, 2)),
    _image("CutMix", seed=3),
    _image("Equalization", value_range=(0.0, 1.0)),
    _image("MixUp", seed=3),
    # With this seed it equalizes by the whole batch in some steps.
    _image("RandAugment", value_range=(0.0, 1.0), seed=8),
    _image("RandomBrightness", 0.3, **_UNIT),
    _image("RandomColorDegeneration", 0.5, **_UNIT),
    _image("RandomColorJitter", brightness_factor=0.3, hue_factor=0.2, **_UNIT),
    _image("RandomContrast", 0.5, **_UNIT),
    # Called for an inference it does not crop, in Keras 3.15: what follows must take any size.
    replace(_image("RandomCrop", 4, 4, seed=3), call=lambda crop, x: layers.GlobalMaxPooling2D()(crop(x))),
    _image("RandomElasticTransform", **_UNIT),
    _image("RandomErasing", **_UNIT),
    _image("RandomFlip", seed=3),
    _image("RandomGaussianBlur", **_UNIT),
    _image("RandomGrayscale", seed=3),
    _image("RandomHue", 0.3, **_UNIT),
    _image("RandomInvert", **_UNIT),
    _image("RandomPerspective", seed=3),
    _image("RandomPosterization", 3, **_UNIT),
    _image("RandomRotation", 0.2, seed=3),
    _image("RandomSaturation", 0.4, **_UNIT),
    _image("RandomSharpness", 0.4, **_UNIT),
    _image("RandomShear", 0.3, 0.3, seed=3),
    _image("RandomTranslation", 0.2, 0.2, seed=3),
    _image("RandomZoom", 0.2, seed=3),
    _image("Solarization", value_range=(0.0, 1.0), threshold_factor=0.5, seed=3),
)
