"""A dataset of TensorFlow Datasets that was prepared before: its files, and what an example has."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfdist.data.files.file_patterns import check_local
from tfdist.data.files.remote_files import is_remote
from tfdist.data.random_access.tfrecord_reader import TFRecordReader
from tfdist.data.sample_source import ArraySpec, SampleSpecs
from tfdist.errors import DataError, UsageError


@dataclass(frozen=True)
class PreparedDataset:
    """A split of a prepared dataset.

    Attributes:
        name: As it was asked for, such as `glue/sst2:2.0.0`.
        split: The same, such as `train[:80%]`.
        info: What TensorFlow Datasets knows of it (`DatasetInfo`).
        instructions: Which examples of which files the split has (`FileInstruction`s).
    """

    name: str
    split: str
    info: Any
    instructions: tuple[Any, ...]

    @classmethod
    def find(cls, name: str, split: str, data_dir: str | os.PathLike[str] | None = None) -> PreparedDataset:
        """Looks a dataset up. No network is used, and no code of the dataset is needed.

        Args:
            name: `NAME`, `NAME/CONFIG`, each with or without `:VERSION`; the newest version without one.
            split: A split, a part of one, or several joined by `+`.
            data_dir: The folder of prepared datasets; None for that of TensorFlow Datasets.

        Raises:
            DataError: It was not prepared there, or not as TFRecord files, or has no such split.
            UsageError: tensorflow-datasets is not installed.
        """
        plain, _, version = name.partition(":")
        plain, _, config = plain.partition("/")
        wanted = {key: value for key, value in (("version", version), ("config", config)) if value}
        if data_dir is not None:
            check_local(data_dir)
        where = None if data_dir is None else os.fspath(data_dir)
        try:
            builder = _read_only_builder().builder_from_files(plain, data_dir=where, **wanted)
        except (ValueError, OSError) as error:
            raise DataError(
                f"The dataset {name} is not prepared in {where or 'the folder of TensorFlow Datasets'}: "
                f"{_first_line(error)} Expected one that is: workers download and prepare none. Prepare it once: "
                f"python -c \"import tensorflow_datasets as tfds; tfds.builder('{name}'"
                f"{'' if where is None else f', data_dir={where!r}'}).download_and_prepare(file_format='tfrecord')\""
            ) from None
        form = builder.info.file_format
        if form is None or form.value != "tfrecord":
            raise DataError(
                f"The dataset {name} in {builder.data_path} was prepared as {getattr(form, 'value', form)}. Expected "
                "tfrecord. Prepare it with download_and_prepare(file_format='tfrecord')."
            )
        try:
            instructions = tuple(builder.info.splits[split].file_instructions)
        except (ValueError, KeyError, AttributeError) as error:
            raise DataError(f"The dataset {name} has no split {split}: {_first_line(error)}") from None
        return cls(name, split, builder.info, instructions)

    def reader(self) -> TFRecordReader:
        """A reader of the split's examples.

        Raises:
            DataError: A file is missing or damaged or on another file system, or there is no example.
        """
        names = [os.fspath(instruction.filename) for instruction in self.instructions]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise DataError(f"The split {self.split} of {self.name} has {twice} twice. Expected each file once.")
        if remote := next(filter(is_remote, names), None):
            raise DataError(f"{remote} is on another file system. Expected a data_dir on one that is mounted here.")
        if not names:
            raise DataError(f"Expected at least one sample. Received: the split {self.split} of {self.name}.")
        spans = [(instruction.skip, instruction.take) for instruction in self.instructions]
        reader = TFRecordReader(tuple(Path(name).absolute() for name in names), spans=spans)
        for instruction, records in zip(self.instructions, reader.records_in_files, strict=True):
            if instruction.examples_in_shard != records:
                raise DataError(
                    f"{instruction.filename} has {records} records, and its dataset says "
                    f"{instruction.examples_in_shard}. Prepare the dataset again."
                )
        return reader

    def keys(self, features: list[str] | None, label: str | None) -> tuple[list[str], str]:
        """The features of `x`, and the label: those that are given, else those that the dataset names itself.

        Raises:
            DataError: It has none of that name, or names no label.
        """
        known = list(self.info.features.keys()) if hasattr(self.info.features, "keys") else []
        supervised = self.info.supervised_keys
        pair = supervised if supervised and all(isinstance(key, str) for key in supervised[:2]) else None
        label = label or (pair[1] if pair else None)
        if label is None:
            raise DataError(f"The dataset {self.name} names no label. Expected label, one of {', '.join(known)}.")
        if features is None:
            features = [pair[0]] if pair and pair[1] == label else [name for name in known if name != label]
        unknown = [name for name in [*features, label] if name not in known]
        if unknown or label in features or not features:
            raise DataError(
                f"The dataset {self.name} has the features {', '.join(known)}. Expected some of them for x, and "
                f"another as the label. Received: {', '.join(features)}, and {label}."
            )
        return features, label

    def specs(self, features: list[str], label: str) -> SampleSpecs | None:
        """Returns what a sample is; None where the sizes of some features differ from example to example."""
        specs = {name: self._spec(name) for name in [*features, label]}
        known = {name: spec for name, spec in specs.items() if spec is not None}
        if len(known) < len(specs):
            return None
        y = known.pop(label)
        return SampleSpecs(known if len(known) > 1 else next(iter(known.values())), y)

    def _spec(self, name: str) -> ArraySpec | None:
        info = self.info.features[name].get_tensor_info()
        shape = getattr(info, "shape", None)
        if shape is None or None in shape:
            return None
        dtype = np.dtype(info.np_dtype)
        name = {"f": "float32", "O": "string", "S": "string", "U": "string"}.get(dtype.kind, dtype.name)
        return ArraySpec(name, tuple(shape))


def _read_only_builder() -> Any:
    try:
        from tensorflow_datasets.core import read_only_builder
    except ImportError as error:
        raise UsageError(
            f"Prepared datasets are read with the package tensorflow-datasets, which cannot be loaded ({error}). "
            "Expected it on every host. Install it: pip install 'tfdist[tfds]'"
        ) from error
    return read_only_builder


def _first_line(error: BaseException) -> str:
    return (str(error).strip("'\"").splitlines() or [type(error).__name__])[0].rstrip()
