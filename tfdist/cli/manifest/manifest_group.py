"""`tfdist manifest job|jobset|trainjob`."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfdist.cli import common_options as shared
from tfdist.cli.launch.train_arguments import given_options, train_arguments, train_options
from tfdist.cli.manifest.manifest_params import own_options
from tfdist.cli.train_target import Target, check_overrides, name_target
from tfdist.cli.verb import VerbGroup
from tfdist.errors import UsageError

OWN = frozenset({"run_dir", "grace", "max_restarts", "resume"})
"""Options of `train` that a pod, or what starts it, is concerned by as well, or that have another default there."""

REFUSED = frozenset({"nproc", "overwrite"})
"""A pod is one worker; and a pod that is started again would remove what it is to resume."""

GIVEN = "tfdist.cli.manifest.given"
"""Key of a context's `meta`: the command line behind `tfdist manifest`."""


class ManifestVerb(shared.TargetVerb):
    """Takes the options of `train` as well."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params += passed_options()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[GIVEN] = [str(ctx.info_name), *args]
        return super().parse_args(ctx, args)


def passed_options() -> list[click.Option]:
    """The options of `train` that are passed on to the pods as they are."""
    return [option for option in train_options() if option.name not in OWN | REFUSED]


if TYPE_CHECKING:
    from tfdist.multihost.kubernetes.manifest_options import ManifestOptions
    from tfdist.multihost.kubernetes.pod_naming import Kind


@click.group(cls=VerbGroup)
def manifest() -> None:
    """Writes the manifest of a training for Kubernetes, which `kubectl apply -f` starts.

    Each pod runs `tfdist train TARGET` and is one worker. TARGET and the paths of options are the image's.
    """


def _add(kind: Kind, short: str, text: str) -> None:
    """Makes the command of a kind."""

    @manifest.command(kind, cls=ManifestVerb, help=text, short_help=short, options_metavar="[OPTIONS]")
    @shared.target("Train")
    @own_options
    @click.pass_context
    def write(ctx: click.Context, /, arguments: tuple[str, ...], module: str | None, **options: Any) -> None:
        _write(ctx, kind, name_target(module, arguments), options)


_TARGET = """

TARGET is a YAML config (default ./tfdist.yaml), a Python script, or -m MODULE, as the image has it. After a config
options may follow; after a script or a module everything is its own.
"""
_add(
    "job",
    "An Indexed Job: for every cluster.",
    "Writes an Indexed Job with a Service for the names of its pods. Every cluster has what it needs." + _TARGET,
)
_add(
    "jobset",
    "A JobSet: restarts all pods together.",
    "Writes a JobSet, which restarts all pods together. The cluster must have its controller." + _TARGET,
)
_add(
    "trainjob",
    "A TrainJob of Kubeflow Trainer.",
    "Writes a TrainJob with its runtime. The cluster must have Kubeflow Trainer." + _TARGET,
)


def _write(ctx: click.Context, kind: Kind, target: Target, options: dict[str, Any]) -> None:
    # Imported here: `--help` does not need it.
    from tfdist.multihost.kubernetes.manifest_text import manifest_text

    check_overrides(target, options["overrides"])
    _check_in_pods(kind, options)
    output = options.pop("output")
    text = manifest_text(_manifest_options(ctx, kind, target, options), ctx.meta[GIVEN])
    if output is None:
        click.echo(text, nl=False)
        return
    _save(Path(output), text)
    click.echo(f"written; to start it: kubectl apply -f {output}", err=True)


def _check_in_pods(kind: Kind, options: dict[str, Any]) -> None:
    """Refuses what `tfdist train` would refuse in every pod, of its options by themselves."""
    from tfdist.cluster.membership import Membership
    from tfdist.launch.job_spec import JobSpec

    if options["min_workers"] is not None:
        _check_elastic(kind, options["min_workers"], options["workers"])
    fields = {field.name for field in dataclasses.fields(JobSpec)}
    names = [str(option.name) for option in passed_options()]
    given = {name: options[name] for name in names if name in fields and options[name] is not None}
    JobSpec(Membership(None, (0,)), "script", "none.py", resume=options["resume"], grace=options["grace"], **given)


def _check_elastic(kind: Kind, min_workers: int, workers: int) -> None:
    from tfdist.cluster.kubernetes import expand_workers
    from tfdist.cluster.membership import Membership
    from tfdist.launch.elastic.elastic_options import ElasticOptions

    if kind != "job":
        raise UsageError(
            "--min-workers lets the other pods go on when one is lost, and a JobSet starts all of them again. Expected "
            f"it with `tfdist manifest job` alone. Received: --min-workers {min_workers} with {kind}"
        )
    pods = expand_workers(f"pod-{{0-{workers - 1}}}:20000")
    ElasticOptions(min_workers).check(Membership(pods, (0,)))


def _save(file: Path, text: str) -> None:
    """Writes the manifest to a new file, or over an earlier manifest."""
    from tfdist.multihost.kubernetes.manifest_text import FIRST_WORDS

    try:
        # A pipe is no regular file, and an empty file holds nothing to lose.
        before = file.read_bytes() if file.is_file() else b""
        if before and not before.startswith(FIRST_WORDS.encode()):
            raise UsageError(
                f"{file} is there, and tfdist has not made it: it may be your config. Expected a new file, or an "
                f"earlier manifest. Received: --output {file}. Remove it, or give another name."
            )
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"The manifest cannot be written: {error.strerror}. Expected a file in a folder that is there. "
            f"Received: --output {file}"
        ) from error


def _manifest_options(ctx: click.Context, kind: Kind, target: Target, options: dict[str, Any]) -> ManifestOptions:
    from tfdist.multihost.kubernetes.manifest_options import ManifestOptions, Mount, SecretVariable

    passed = {option.name: options.pop(str(option.name)) for option in passed_options()}
    if options["name"] is None:
        options["name"] = _name_of(target)
    if options["run_dir"] is None:
        options["run_dir"] = f"/runs/{options['name']}"
    options["env_secrets"] = tuple(SecretVariable(*each) for each in options["env_secrets"])
    options["mounts"] = tuple(Mount(*pair) for pair in options["mounts"])
    arguments = [*train_arguments(ctx, without=OWN), *target.arguments]
    if passed["metrics_port"] is not None and "metrics_address" not in given_options(ctx):
        # Nobody else reaches the pod's own 127.0.0.1.
        arguments.insert(0, "--metrics-address=0.0.0.0")
    return ManifestOptions(kind=kind, arguments=tuple(arguments), metrics_port=passed["metrics_port"], **options)


def _name_of(target: Target) -> str:
    """The target's name, in the letters that a host name may have."""
    name = re.sub(r"[^a-z0-9]+", "-", target.name.lower()).strip("-")
    if not re.match("[a-z]", name):
        raise UsageError(
            f"The job cannot be called as its target, {target.target!r}: the name becomes part of host names. "
            "Expected --name NAME, of lower-case letters, digits and dashes. Received: no --name"
        )
    return name
