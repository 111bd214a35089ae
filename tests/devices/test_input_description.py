"""What the input of a config's section goes through, from the section and the graphs of its functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdist.config.data_sections import (
    CsvSource,
    FeatureConfig,
    GeneratorSource,
    ImagesSource,
    SourceConfig,
    TextSource,
    TfrecordSource,
)
from tfdist.training.config_run.input_report import describe_input

HERE = __name__


def in_tensorflow(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.strings.length(record), tf.constant(0)


def in_python(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.numpy_function(lambda data: np.int64(len(data)), [record], tf.int64), tf.constant(0)


@tf.function
def deep_in_python(record: tf.Tensor) -> Any:
    return in_python(record)


def tfrecord(**more: Any) -> SourceConfig:
    return TfrecordSource(files="a", **more)


IMAGE = {"x": FeatureConfig(dtype="image", shape=[4, 4, 3]), "y": FeatureConfig(dtype="int64")}


@pytest.mark.parametrize(
    ("section", "decodes", "python", "function"),
    [
        (tfrecord(parse=f"{HERE}.in_tensorflow"), False, "", f"{HERE}.in_tensorflow"),
        (tfrecord(parse=f"{HERE}.in_python"), False, f"{HERE}.in_python", f"{HERE}.in_python"),
        (tfrecord(parse=f"{HERE}.deep_in_python"), False, f"{HERE}.deep_in_python", f"{HERE}.deep_in_python"),
        (tfrecord(features=IMAGE, label="y"), True, "", ""),
        (ImagesSource(path="a", size=[4, 4], augment="my.augment"), True, "", "my.augment"),
        (TextSource(files="a", vectorize=f"{HERE}.in_tensorflow"), False, "", f"{HERE}.in_tensorflow"),
        (CsvSource(files="a", label="y"), False, "", ""),
        (GeneratorSource(function="my.samples", augment="my.augment"), False, "", "my.samples"),
    ],
)
def test_what_samples_go_through(section: SourceConfig, decodes: bool, python: str, function: str) -> None:
    found = describe_input(section)
    assert (found.format, found.decodes, found.python, found.function) == (section.format, decodes, python, function)
    assert found.cores >= 1
