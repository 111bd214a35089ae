"""`tfdist manifest job|jobset|trainjob`: the commands, their own options and the types of their values."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfdist.cli import common_options as shared
from tfdist.cli.launch.launch_verb import given_options, train_arguments, train_options
from tfdist.cli.train_target import Target, check_overrides, name_target
from tfdist.cli.verb import VerbGroup
from tfdist.errors import UsageError

if TYPE_CHECKING:
    from tfdist.multihost.kubernetes.accepted_values import Kind
    from tfdist.multihost.kubernetes.manifest_options import ManifestOptions

_COURSE = (
    shared.choice(
        "--resume", ["auto", "must", "never"], "auto", "Resume from the latest checkpoint in the run directory."
    ),
    click.option(
        "--max-restarts",
        type=click.IntRange(min=0),
        default=3,
        show_default=True,
        metavar="N",
        help="Starts after failures; those after a preemption do not count.",
    ),
    shared.seconds("--grace", 30, "How long the workers may take to stop; their pods have a minute more."),
)
OWN = frozenset({"run_dir", "grace", "max_restarts", "resume"})
"""Options of `train` that a pod, or what starts it, is concerned by as well, or that have another default there."""
REFUSED = frozenset({"nproc", "overwrite"})
"""A pod is one worker; and a pod that is started again would remove what it is to resume."""
GIVEN = "tfdist.cli.manifest.given"
"""Key of a context's `meta`: the command line behind `tfdist manifest`."""
_TARGET = """

TARGET is a YAML config (default ./tfdist.yaml), a Python script, or -m MODULE, as the image has it. After a config
options may follow; after a script or a module everything is its own.
"""


class PairParam(click.ParamType):
    """`KEY=VALUE`, or `CLAIM:PATH`: two texts around the first separator."""

    def __init__(self, separator: str, name: str) -> None:
        self.separator = separator
        self.name = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        first, separator, second = str(value).partition(self.separator)
        if not separator or not first:
            self.fail(f"expected {self.name}. Received: {value!r}", param, ctx)
        return first, second


class SecretVariableParam(click.ParamType):
    """`NAME=SECRET:KEY`: three texts."""

    name = "NAME=SECRET:KEY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str, str]:
        found = re.fullmatch(r"([^=]+)=([^:]+):(.+)", str(value))
        if found is None:
            # Not what was given: it may be the secret itself.
            self.fail(f"expected {self.name}, a Secret that is there and its key", param, ctx)
        return found[1], found[2], found[3]


class UserParam(click.ParamType):
    """`UID`, which is the group's number as well, or `UID:GID`."""

    name = "user"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        if not re.fullmatch(r"[0-9]{1,9}(:[0-9]{1,9})?", value):
            self.fail(f"expected numbers, UID or UID:GID, such as 10001:10001. Received: {value!r}", param, ctx)
        user, _, group = value.partition(":")
        return int(user), int(group or user)


def _text(name: str, metavar: str, text: str, **settings: Any) -> shared.Decorator:
    return click.option(name, metavar=metavar, help=text, **settings)


def _pairs(names: tuple[str, ...], separator: str, form: str, text: str) -> shared.Decorator:
    kind = PairParam(separator, form)
    return click.option(*names, type=kind, multiple=True, metavar=form, help=f"{text}; repeatable.")


_WHAT = (
    _text("--name", "NAME", "The job's name.", show_default="the target's"),
    _text("--image", "IMAGE", "An image with tfdist, and with what is trained.", required=True),
    _pairs(("--env",), "=", "NAME=VALUE", "A variable of all pods"),
    click.option(
        "--env-secret",
        "env_secrets",
        type=SecretVariableParam(),
        multiple=True,
        metavar=SecretVariableParam.name,
        help="A variable of all pods whose value a Secret has; repeatable.",
    ),
    _text("--token-secret", "SECRET", "A Secret whose `token` is the TFDIST_TOKEN of all pods."),
)

_PODS = (
    shared.count("--workers", "Pods, each of which is one worker.", default=2),
    click.option(
        "--gpus",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        metavar="N",
        help="NVIDIA GPUs of each pod.",
    ),
    _text("--cpus", "QUANTITY", "Processors that each pod is promised, and may have more of: 8, 500m."),
    _text("--memory", "QUANTITY", "Memory of each pod: 32Gi."),
    _text("--shm-size", "QUANTITY", "Of it in /dev/shm, at most.", default="1Gi", show_default=True),
    _pairs(("--node-selector",), "=", "KEY=VALUE", "A label of the nodes to run on"),
)

_PLACES = (
    _text("--run-dir-claim", "CLAIM", "The PersistentVolumeClaim for runs, which all pods mount. This or --copy-to."),
    _text(
        "--run-dir",
        "DIR",
        "Where the run writes. The claim is mounted at the folder above.",
        show_default="/runs/NAME",
    ),
    _pairs(("--mount", "mounts"), ":", "CLAIM:PATH", "A claim with data, and where to mount it to be read"),
)


_CLUSTER = (
    click.option(
        "--port",
        type=click.IntRange(1, 65535),
        default=20000,
        show_default=True,
        metavar="PORT",
        help="On which the workers talk.",
    ),
    _text("--namespace", "NAME", "Where the job is created.", show_default="the one that kubectl works in"),
    _pairs(("--label", "labels"), "=", "KEY=VALUE", "A label of the job, such as its queue"),
    _text("--run-as", "UID[:GID]", "User and group of the pods.", type=UserParam(), default="10001", show_default=True),
    _text(
        "--service-account",
        "NAME",
        "Of the pods.",
        show_default="none, and no credentials of the cluster in the pods",
    ),
    click.option(
        "--image-pull-secret",
        "image_pull_secrets",
        multiple=True,
        metavar="SECRET",
        help="For the image's registry; repeatable.",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        show_default="the standard output",
        help="Where to write.",
    ),
)


def own_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds all of them to a command."""
    for option in reversed(_WHAT + _PODS + _PLACES + _COURSE + _CLUSTER):
        command = option(command)
    return command


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
    from tfdist.multihost.kubernetes.manifest import manifest_text

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
    from tfdist.multihost.kubernetes.manifest import FIRST_WORDS

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
