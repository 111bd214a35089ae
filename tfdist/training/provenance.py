"""Provenance of a run: the resolved config, or the script and its arguments, with seed and versions."""

from __future__ import annotations

import dataclasses

import yaml

from tfdist.config import RunConfig, dump_yaml
from tfdist.config.yaml_types import Dumper
from tfdist.launch.environment import Assignment
from tfdist.rundir import atomic_files
from tfdist.training.libraries import versions
from tfdist.training.session.session import LaunchedSession


def write_config(session: LaunchedSession, config: RunConfig) -> None:
    """Writes the resolved config with the seed and the versions that are used; `tfdist train` can run it again."""
    atomic_files.write_text(
        session.run.config_file, dump_yaml(dataclasses.replace(config, seed=session.seed), versions()), durable=False
    )


def write_script(session: LaunchedSession, assignment: Assignment) -> None:
    """Writes what was run, with which arguments, and the seed of what the script does not seed itself."""
    content = {
        assignment.target_kind: assignment.target,
        "args": list(assignment.args),
        "seed": session.seed,
        "workers": session.num_workers,
        "replicas": session.strategy.num_replicas_in_sync,
        "versions": versions(),
    }
    atomic_files.write_text(session.run.config_file, yaml.dump(content, Dumper=Dumper, sort_keys=False), durable=False)
