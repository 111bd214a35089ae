"""Features of `tf.train.Example`, as some records have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfdist.errors import DataError

_TYPED_RECORDS = 100


@dataclass(frozen=True)
class FeatureKind:
    """The kind of a feature.

    Attributes:
        dtype: As in a config.
        shape: Without the batch.
    """

    dtype: str
    shape: tuple[int, ...]

    @property
    def section(self) -> dict[str, Any]:
        """Its section in a config."""
        return {"dtype": self.dtype, **({"shape": list(self.shape)} if self.shape else {})}


@dataclass(frozen=True)
class Features:
    """The features of some records.

    Attributes:
        kinds: Those that a config can describe, by name.
        unfit: The names of the others, which records lack or whose lengths differ.
        examples: The records.
    """

    kinds: Mapping[str, FeatureKind]
    unfit: Sequence[str]
    examples: Sequence[Any]

    def input_for(self, label: str) -> str:
        """The feature to train on: an image, or else the longest that holds numbers.

        Raises:
            DataError: There is none besides the label.
        """
        others = {name: kind for name, kind in self.kinds.items() if name != label and kind.dtype != "string"}
        if not others:
            raise DataError(f"No feature besides {label} has numbers or images of one size. Expected one to train on.")
        return max(others, key=lambda name: (others[name].dtype == "image", int(np.prod(others[name].shape))))

    def values(self, name: str) -> NDArray:
        """The values of a feature that holds numbers, [k] or [k, n]."""
        kind = self.kinds[name]
        rows = [_list_of(example.features.feature[name])[1] for example in self.examples]
        return np.array(rows, kind.dtype).reshape(len(rows), *kind.shape)


def features_of(records: Sequence[bytes], origin: str) -> Features:
    """Looks at records; images are decoded, to know their sizes.

    Raises:
        DataError: They are none of `tf.train.Example`, or have no feature.
    """
    # Imported here: other formats need no TensorFlow.
    import tensorflow as tf
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        examples = [tf.train.Example.FromString(record) for record in records]
    except DecodeError as error:
        raise DataError(
            f"The records of {origin} are none of tf.train.Example. Expected such records. For others write "
            "data.train.parse, the dotted path of a function that parses one."
        ) from error
    typed = examples[:_TYPED_RECORDS]
    names = sorted({name for example in typed for name in example.features.feature})
    if not names:
        raise DataError(f"The records of {origin} have no features. Expected those of tf.train.Example with values.")
    found = {name: _kind([example.features.feature.get(name) for example in typed]) for name in names}
    kinds = {name: kind for name, kind in found.items() if kind is not None}
    return Features(kinds, [name for name in names if name not in kinds], examples)


def _list_of(feature: Any) -> tuple[str, Sequence[Any]]:
    kind = feature.WhichOneof("kind") or "int64_list"
    return kind, getattr(feature, kind).value


def _kind(features: Sequence[Any]) -> FeatureKind | None:
    if any(feature is None for feature in features):
        return None
    lists = [_list_of(feature) for feature in features]
    kinds, lengths = {kind for kind, _ in lists}, {len(values) for _, values in lists}
    if len(kinds) > 1 or len(lengths) > 1 or lengths == {0}:
        return None
    (kind,), (length,) = kinds, lengths
    if kind == "bytes_list":
        return _image_or_string(lists[0][1][0]) if length == 1 else None
    return FeatureKind("int64" if kind == "int64_list" else "float32", () if length == 1 else (length,))


def _image_or_string(content: bytes) -> FeatureKind:
    import tensorflow as tf

    try:
        height, width, channels = tf.io.decode_image(content, expand_animations=False).shape
    except tf.errors.InvalidArgumentError:
        return FeatureKind("string", ())
    return FeatureKind("image", (height, width, channels if channels in (1, 3, 4) else 3))
