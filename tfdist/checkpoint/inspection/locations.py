"""Locations of a run's checkpoints, and its retention policy, by its config."""

from __future__ import annotations

import re
from pathlib import Path

from tfdist.checkpoint.checkpoint_policies import RetentionPolicy
from tfdist.config.section import build
from tfdist.config.training_sections import CheckpointConfig
from tfdist.errors import ConfigError, RunDirError
from tfdist.rundir.layout import RunDir
from tfdist.rundir.regular_files import open_regular
from tfdist.runtime.object_stores import path_of
from tfdist.storage.object_path import ObjectPath
from tfdist.url_schemes import is_bucket, is_url

_FIT = re.compile(r"fit-(\d+)")


def folder_of(run: RunDir, fit: int) -> Path | ObjectPath:
    """The folder with the checkpoints of one `fit`: a path, or a URL in a bucket, which reads like one.

    Args:
        run: The run.
        fit: Which `fit` of its script, counted from 1; the run of a config has one.

    Raises:
        RunDirError: They lie where only TensorFlow's file systems reach.
    """
    directory = _section(run).directory
    if directory is None:
        return run.checkpoints_dir / f"fit-{fit}" if fit > 1 else run.checkpoints_dir
    if is_bucket(directory):
        return path_of(directory)
    if is_url(directory):
        raise RunDirError(
            f"The checkpoints of {run} lie in {directory}. Expected a path on this machine, or s3://. Copy that "
            f"directory to {run.checkpoints_dir}, and set checkpoint.directory in {run.config_file} to null."
        )
    return Path(directory)


def fits_of(run: RunDir) -> list[int]:
    """The numbers of the `fit`s after the first that have a folder of their own, counted from 1."""
    try:
        names = [entry.name for entry in run.checkpoints_dir.iterdir()]
    except OSError:
        return []
    return sorted(int(match[1]) for match in map(_FIT.fullmatch, names) if match)


def retention_of(run: RunDir) -> RetentionPolicy:
    """The retention policy of a run."""
    return RetentionPolicy.of(_section(run))


def _section(run: RunDir) -> CheckpointConfig:
    """The section `checkpoint` of the run's config; the defaults for the run of a script, which has no config.

    Raises:
        RunDirError: The config cannot be read, or has another section `checkpoint` than this version of tfdist writes.
    """
    # Imported here: YAML's parser takes longer than all else that a list of checkpoints needs.
    from tfdist.config.yaml_document import parse_document

    try:
        with open_regular(run.config_file) as file:
            section = parse_document(run.config_file, file).content.get("checkpoint")
    except FileNotFoundError:
        return CheckpointConfig()
    except (OSError, ConfigError) as error:
        raise RunDirError(
            f"{run.config_file} cannot be used, and says where the checkpoints lie: {error}. Expected the config that "
            "the run wrote. Put it back; where the checkpoints lie in the run directory, remove it."
        ) from error
    try:
        return CheckpointConfig() if section is None else build(CheckpointConfig, section, "checkpoint")
    except ConfigError as error:
        raise RunDirError(f"{run.config_file} does not say where the checkpoints lie: {error}") from error
