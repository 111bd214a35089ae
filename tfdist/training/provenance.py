"""Provenance of a run: the resolved config, or the script and its arguments, with seed, kernels and versions."""

from __future__ import annotations

import dataclasses

import yaml

from tfdist.config import RunConfig, dump_yaml
from tfdist.config.yaml_document import Dumper
from tfdist.launch.environment import Assignment
from tfdist.rundir import atomic_files
from tfdist.runtime.devices import replica_kernels
from tfdist.runtime.strategy_settings import settings_of
from tfdist.training.libraries import versions
from tfdist.training.session.session import LaunchedSession


def write_config(session: LaunchedSession, config: RunConfig) -> None:
    """Writes the resolved config with the seed, kernels and versions that are used; `tfdist train` can run it again."""
    used = dataclasses.replace(config, seed=session.seed, kernels=replica_kernels() or config.kernels)
    atomic_files.write_text(session.run.config_file, dump_yaml(used, versions()), durable=False)


def write_script(session: LaunchedSession, assignment: Assignment) -> None:
    """Writes what was run, with which arguments, and the seed of what the script does not seed itself."""
    settings = settings_of(session.strategy)
    content = {
        assignment.target_kind: assignment.target,
        "args": list(assignment.args),
        "seed": session.seed,
        "workers": session.num_workers,
        "replicas": session.strategy.num_replicas_in_sync,
        "kernels": replica_kernels() or None,
        "shard": None if settings.shard is None else settings.shard.mode,
        "shard_over": assignment.shard_over,
        "shard_embeddings": settings.shard_embeddings,
        "offload": assignment.offload,
        "tensor": assignment.tensor,
        "context": assignment.context,
        "versions": versions(),
    }
    atomic_files.write_text(session.run.config_file, yaml.dump(content, Dumper=Dumper, sort_keys=False), durable=False)
