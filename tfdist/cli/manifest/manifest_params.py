"""The own options of the commands of `tfdist manifest`, and the types of their values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from tfdist.cli import common_options as shared


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
