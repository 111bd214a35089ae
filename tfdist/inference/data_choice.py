"""The data of an inference: a section of the run's config, or of a YAML file."""

from __future__ import annotations

import dataclasses
import glob
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfdist.bounded_process import run
from tfdist.config import RunConfig, SourceConfig
from tfdist.config.field_errors import FieldErrors
from tfdist.config.load import load_parts, load_source, located
from tfdist.data.files.missing_files import missing_files
from tfdist.errors import DataError, UsageError

SPLITS = ("validation", "train")

BATCH_SIZE = 256
"""Samples of a step, where no config says it."""

_EXPECTED = (
    "Expected a YAML file: a config, whose data.validation is taken (data.train with :train behind its name), or one "
    "section, as data.validation has it; or the samples: an .npz, .csv, .parquet or .tfrecord file or pattern, or a "
    "folder of images."
)

_LOOK_SECONDS = 300.0


@dataclass(frozen=True)
class DataChoice:
    """Data.

    Attributes:
        section: Where the samples come from, in their order, without changes at random.
        key: Its dotted key, for what is said of it.
        batch_size: Samples of a step over all replicas.
    """

    section: SourceConfig
    key: str
    batch_size: int


def choose_data(
    asked: str | None,
    config: RunConfig | None,
    batch_size: int | None,
    x: str | None = None,
    label: str | None = None,
) -> DataChoice:
    """Finds the data that a user names, and its files on this machine.

    Args:
        asked: `train`, `validation`, a YAML file, or data that `tfdist config init` takes; None for the validation of
            the run.
        config: The run's config; None where the model is a file.
        batch_size: Samples of a step; None for those of the config.
        x: The array of an npz file that is x; None to find it by its name.
        label: The array, column or feature that is y; None to find it by its name.

    Raises:
        UsageError: There is no such data.
        DataError: Files of it are missing.
    """
    if asked is None or asked in SPLITS:
        found, key, size = _of_run(asked, config)
    elif _is_yaml(_without_split(asked)):
        found, key, size = _of_file(asked)
    else:
        found, key, size = _of_samples(asked, x, label)
    if (x or label) and (asked is None or asked in SPLITS or _is_yaml(_without_split(asked))):
        raise UsageError(
            "--x and --label name what of a file of data is x and y. Expected --data with such a file, as an .npz. "
            f"Received: {'no --data' if asked is None else f'--data {asked}'}, which says that itself"
        )
    section = in_order(found)
    problems = missing_files({key: section})
    if problems:
        raise DataError("\n  ".join(f"{place}: {problem}" for place, problem in problems.items()))
    return DataChoice(section, key, batch_size or size)


def in_order(section: SourceConfig) -> SourceConfig:
    """The section without what gives samples another order, or changes them at random."""
    changes: dict[str, Any] = {"shuffle": False, "augment": None}
    if "interleave" in section.key_names():
        changes["interleave"] = 1
    return dataclasses.replace(section, **changes)


def _of_run(asked: str | None, config: RunConfig | None) -> tuple[SourceConfig, str, int]:
    split = asked or SPLITS[0]
    if config is None:
        raise UsageError(
            "Neither a .keras file nor the run of a script says anything of data. "
            f"{_EXPECTED} Received: {f'--data {asked}' if asked else 'no --data'}"
        )
    section = getattr(config.data, split)
    if section is None:
        raise UsageError(
            f"The config of the run has no data.{split}. Expected data for the model. Give --data train, or --data "
            "FILE.yaml."
        )
    return section, f"data.{split}", config.data.batch_size


def _of_file(asked: str) -> tuple[SourceConfig, str, int]:
    name = _without_split(asked)
    split = asked[len(name) + 1 :]
    if not Path(name).is_file():
        raise UsageError(f"There is no data {asked}. {_EXPECTED} Received: --data {asked}")
    parts = load_parts(name)
    if "format" in parts.document.content and not split:
        return load_source(parts.document), Path(name).stem, BATCH_SIZE
    key = f"data.{split or SPLITS[0]}"
    wrong = [problem for problem in parts.problems if problem.key.startswith(key)]
    if wrong:
        raise located(FieldErrors(wrong), parts.document)
    section = parts.values.get(key)
    if section is None:
        others = [one for one in SPLITS if parts.values.get(f"data.{one}") is not None]
        instead = f" Give --data {name}:{others[0]}." if others else ""
        raise UsageError(f"{name} has no {key}. {_EXPECTED}{instead} Received: --data {asked}")
    return section, key, _batch_size(parts.values)


def _of_samples(asked: str, x: str | None, label: str | None) -> tuple[SourceConfig, str, int]:
    """Of samples themselves: the section that a config made of them has."""
    name = _without_split(asked)
    if not glob.glob(os.path.expanduser(name)):
        raise UsageError(f"There is no data {asked}. {_EXPECTED} Received: --data {asked}")
    named = [f"--{option}={value}" for option, value in (("x", x), ("label", label)) if value is not None]
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "data.yaml"
        # In a process of its own: to look at images and records takes TensorFlow.
        done = run([sys.executable, "-m", "tfdist", "config", "init", *named, "--", name, str(made)], _LOOK_SECONDS)
        if done.code or not made.is_file():
            said = done.err.strip().removeprefix("error: ") or f"It was not looked at within {_LOOK_SECONDS:g} s."
            raise DataError(f"--data {asked}: {said}")
        values = load_parts(str(made)).values
    split = asked[len(name) + 1 :] or ("train" if values.get("data.validation") is None else SPLITS[0])
    section = values.get(f"data.{split}")
    if section is None:
        raise UsageError(f"{name} has no samples for validation. Expected --data {name}. Received: --data {asked}")
    return section, f"{Path(name).stem}:{split}", BATCH_SIZE


def _without_split(asked: str) -> str:
    """The file of `FILE:train`."""
    return asked.rpartition(":")[0] if asked.endswith(tuple(f":{one}" for one in SPLITS)) else asked


def _is_yaml(name: str) -> bool:
    return name.lower().endswith((".yaml", ".yml"))


def _batch_size(values: Mapping[str, Any]) -> int:
    size = values.get("data.batch_size")
    return size if isinstance(size, int) else BATCH_SIZE
