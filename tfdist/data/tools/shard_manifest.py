"""Manifest of shards: what they are made of, so that a second start keeps finished ones and never mixes two sources."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import yaml

from tfdist.config.yaml_document import Dumper
from tfdist.errors import DataError, UsageError
from tfdist.rundir.regular_files import is_bare_name, read_json


def config_text(section: Mapping[str, Any]) -> str:
    """A `data` section in YAML that trains on what `section` describes."""
    entries = {"format": section["format"], "files": section["files"]}
    features = "".join(f"      {_text(name)}: {_flow(feature)}\n" for name, feature in section["features"].items())
    lines = yaml.dump(entries, Dumper=Dumper, sort_keys=False, width=1000).splitlines()
    head = "".join(f"    {line}\n" for line in lines)
    return f"data:\n  train:\n{head}    features:\n{features}    label: {_text(section['label'])}"


def _text(text: str) -> str:
    """A text as a key or a value, in quotes where it would be read as something else."""
    return _flow([text])[1:-1]


def _flow(content: Any) -> str:
    return yaml.dump(content, Dumper=Dumper, sort_keys=False, default_flow_style=True, width=1000).strip()


VERSION = 1

MANIFEST_SUFFIX = ".shards.json"
"""The suffix of the manifest's file name, beside the shards."""


@dataclass(frozen=True)
class ShardManifest:
    """The shards of one source.

    Attributes:
        source: The section that describes it, in JSON's types.
        inputs: A digest of its files' names, sizes and times of change.
        samples: The number of samples in all shards.
        shards: The number of shards.
        classes: The names of the labels 0, 1, ...; empty without.
        features: The `features` of a config that reads them; empty until a shard is finished.
        sizes: Finished shard's file name -> bytes.
    """

    source: Mapping[str, Any]
    inputs: str
    samples: int
    shards: int
    classes: tuple[str, ...] = ()
    features: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    def check(self) -> None:
        """Checks the types that a file may have otherwise. Raises `ValueError` for another one."""
        mappings = (self.source, self.features, self.sizes)
        counts = [self.samples, self.shards, *(self.sizes.values() if isinstance(self.sizes, Mapping) else ())]
        texts = [self.inputs, *self.classes]
        if not all(isinstance(mapping, Mapping) for mapping in mappings):
            raise ValueError("expected objects for source, features and sizes")
        if not all(isinstance(count, int) and count >= 0 for count in counts):
            raise ValueError("expected whole numbers for samples, shards and sizes")
        if not all(isinstance(text, str) for text in texts) or not all(map(is_bare_name, self.sizes)):
            raise ValueError("expected texts for inputs and classes, and names of files for sizes")

    def differences(self, other: ShardManifest) -> list[str]:
        """The differences between what the shards of `other` and these are made of; none where both are the same."""
        found = [
            f"{key}: {other.source.get(key)} then, {self.source.get(key)} now"
            for key in {**self.source, **other.source}
            if self.source.get(key) != other.source.get(key)
        ]
        if not found and self.inputs != other.inputs:
            found.append("its files have changed since")
        if self.shards != other.shards:
            found.append(f"shards: {other.shards} then, {self.shards} now")
        return found

    def with_shard(self, name: str, size: int, features: Mapping[str, Any]) -> ShardManifest:
        """Returns the manifest with one more finished shard.

        Raises:
            DataError: Its samples have other types or shapes than those before.
        """
        check_same_kind(name, features, self.features)
        return replace(self, features=features, sizes={**self.sizes, name: size})

    def to_json(self) -> dict[str, Any]:
        """The manifest in JSON's types."""
        return {"version": VERSION, **dataclasses.asdict(self)}

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Reads the manifest in a file; None where there is no such file.

        Raises:
            UsageError: The file cannot be read, or is not a manifest.
        """
        try:
            content = read_json(path)
            if content.pop("version") != VERSION:
                raise ValueError("another version wrote it")
            content["classes"] = tuple(content["classes"])
            manifest = cls(**content)
            manifest.check()
            return manifest
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(
                f"{path} does not say what the shards next to it were made of: {error}. Expected what this version of "
                "`tfdist data shard` writes. Remove it with its shards, or choose another DEST."
            ) from error


def digest_of(paths: Iterable[Path]) -> str:
    """Returns a digest of files' names, sizes and times of change.

    Raises:
        DataError: One of them cannot be read.
    """
    digest = hashlib.sha256()
    for path in paths:
        try:
            found = path.stat()
        except OSError as error:
            raise DataError(f"Cannot read {path}: {error.strerror or error}.") from error
        digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def check_same_kind(name: str, features: Mapping[str, Any], before: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the features of a shard's samples, which must be those of the samples before, if there are any.

    Raises:
        DataError: They are not.
    """
    if before and before != features:
        raise DataError(
            f"{name} has samples of another kind than those before: {json.dumps(features)}. Expected all of one type "
            f"and shape: {json.dumps(before)}. A vectorize function that pads its texts must do so to a fixed length."
        )
    return features


def shard_name(name: str, shard: int, shards: int) -> str:
    """The file name of a shard, as TensorFlow names them."""
    return f"{name}-{shard:05}-of-{shards:05}.tfrecord"
