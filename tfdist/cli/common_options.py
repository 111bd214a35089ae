"""Options that several verbs share, and the types of their values."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from tfdist.cli.train_target import DEFAULT_CONFIG, separate
from tfdist.cli.verb import Verb

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class DeviceListParam(click.ParamType):
    """Numbers of GPUs, such as `0,1`."""

    name = "device list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        entries = [entry.strip() for entry in str(value).split(",")]
        if not all(entry.isascii() and entry.isdigit() for entry in entries):
            self.fail(f"expected numbers of GPUs from 0, such as 0,1. Received: {value!r}", param, ctx)
        numbers = tuple(int(entry) for entry in entries)
        if len(set(numbers)) < len(numbers):
            self.fail(f"expected every GPU once. Received: {value!r}", param, ctx)
        return numbers


_LOCAL_INSTEAD = {
    "RUN_DIR": "Give the run directory on the chief's machine: its config says where the checkpoints lie.",
}


class RowsParam(click.ParamType):
    """A number of rows, also as 1e6."""

    name = "rows"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        rows = float(click.FLOAT.convert(value, param, ctx))
        if not (1 <= rows < 2**63 and rows == int(rows)):
            self.fail(f"expected a number of rows of 1 or more, such as 1e6. Received: {value}", param, ctx)
        return int(rows)


class ShardOverParam(click.ParamType):
    """`all`, `host`, or how many workers, from 2."""

    name = "workers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | int:
        if value in ("all", "host"):
            return str(value)
        if not (str(value).isascii() and str(value).isdigit() and int(value) > 1):
            self.fail(f"expected all, host, or a number of workers from 2. Received: {value}", param, ctx)
        return int(value)


class LocalPath(click.Path):
    """A path of this machine; a URL, which would be taken for a relative path, is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        # Imported here: `--help` does not need it.
        from tfdist.url_schemes import fault_as_local

        name = ""
        if param is not None:
            # The long one, which stands last.
            name = param.opts[-1] if isinstance(param, click.Option) else param.human_readable_name.strip("[]")
        instead = _LOCAL_INSTEAD.get(name, "Mount that file system here, or copy what is needed.")
        fault = fault_as_local(value, name, instead)
        if fault is not None:
            self.fail(fault, param, ctx)
        return super().convert(value, param, ctx)


class SecondsParam(click.ParamType):
    """A finite number of seconds above 0."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = click.FLOAT.convert(value, param, ctx)
        if not 0 < seconds < math.inf:
            self.fail(f"expected a number of seconds above 0. Received: {value}", param, ctx)
        return seconds


class RenamedOption(click.Option):
    """An option that had other names before: these go on working, and no help has them."""

    def __init__(self, *args: Any, former: Sequence[str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.former = tuple(former)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        parser.add_option(obj=self, opts=self.former, dest=self.name, action="store", nargs=self.nargs)


class TargetVerb(Verb):
    """Takes options up to the target; what follows a script or a module is its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [option for option in self.params if isinstance(option, click.Option) and not option.is_flag]
        names = {name for option in options for name in (*option.opts, *getattr(option, "former", ()))}
        try:
            rest = super().parse_args(ctx, separate(args, names))
        except click.NoSuchOption as error:
            raise _as_config_entry(error, args, ctx) from None
        self._say_default(ctx)
        self._warn_of_misplaced(ctx)
        return rest

    def _say_default(self, ctx: click.Context) -> None:
        """Says that the default config is taken, where that is one of this machine."""
        given = ctx.params.get("module") or ctx.params.get("arguments") or ctx.params.get("quiet")
        if not given and not ctx.resilient_parsing and os.path.exists(DEFAULT_CONFIG):
            click.echo(f"tfdist: ./{DEFAULT_CONFIG} is taken, as no config was given", err=True)

    def _warn_of_misplaced(self, ctx: click.Context) -> None:
        if ctx.resilient_parsing:
            return
        module: str | None = ctx.params.get("module")
        arguments: tuple[str, ...] = ctx.params.get("arguments") or ()
        known = {name for option in self.params if isinstance(option, click.Option) for name in option.opts}
        if known.isdisjoint(argument.partition("=")[0] for argument in arguments):
            return
        # Imported here: most command lines have none.
        from tfdist.cli.help.misplaced_options import misplaced_options, misplaced_warning

        misplaced = misplaced_options(module, arguments, known)
        if misplaced:
            target = f"-m {module}" if module else arguments[0]
            click.echo(misplaced_warning(ctx.command_path, target, misplaced), err=True)


def _as_config_entry(error: click.NoSuchOption, args: Sequence[str], ctx: click.Context) -> click.UsageError:
    """The error for an unknown option, which says how `--set` has it where a config has a key of that name."""
    # Imported here: the schema is slow to load, and most options are known.
    from tfdist.config.schema import RunConfig
    from tfdist.config.section import all_keys

    name = error.option_name.removeprefix("--").replace("-", "_")
    keys = [key for key in all_keys(RunConfig) if name in (key, key.rpartition(".")[2])]
    if not keys or not any("--set" in option.opts for option in ctx.command.params):
        return error
    after = [word.partition("=")[2] or value for word, value in zip(args, [*args[1:], ""], strict=True)
             if word.partition("=")[0] == error.option_name]  # fmt: skip
    value = after[0] if after and after[0] and not after[0].startswith("-") else "VALUE"
    meant = " or ".join(f"--set {key}={value}" for key in keys)
    return click.UsageError(f"No such option {error.option_name!r}. For that key of a config: {meant}", ctx)


def files_here(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Has a shell complete the names of files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def target(does: str) -> Decorator:
    """`[TARGET] [ARGS]...` and `-m MODULE`, of a `TargetVerb`.

    Args:
        does: What the verb does to a target, as its help begins: "Train".
    """
    argument = click.argument(
        "arguments", nargs=-1, type=click.UNPROCESSED, metavar="[TARGET] [ARGS]...", shell_complete=files_here
    )
    option = click.option("-m", "module", metavar="MODULE", help=f"{does} a module; all that follows is its own.")
    return lambda command: argument(option(command))


def seconds(name: str, default: float, text: str) -> Decorator:
    """An option in seconds."""
    return click.option(name, type=SecondsParam(), default=default, show_default=True, metavar="S", help=text)


def count(name: str, text: str, default: int | str | None = None) -> Decorator:
    """An option that counts something, from 1.

    Args:
        default: The number; or, in words, what holds where none is given.
    """
    shown, number = (default, None) if isinstance(default, str) else (default is not None, default)
    return click.option(name, type=click.IntRange(min=1), default=number, show_default=shown, metavar="N", help=text)


def choice(name: str, values: Sequence[str], default: str, text: str) -> Decorator:
    """An option with a few values."""
    return click.option(name, type=click.Choice(values), default=default, show_default=True, help=text)


def show(default: str, text: str) -> Decorator:
    """`--show`: whose output the terminal shows."""
    return choice("--show", ["chief", "all", "none"], default, text)


devices = click.option("--devices", type=DeviceListParam(), metavar="0,1", help="The GPUs to use.")

memory_limit = click.option(
    "--memory-limit", type=click.IntRange(min=1), metavar="MiB", help="GPU memory of each logical GPU."
)

share_gpu = click.option(
    "--share-gpu",
    is_flag=True,
    help="Let workers of this machine share its GPUs where there are fewer of these, with equal parts of their memory.",
)

batch_norm = click.option(
    "--batch-norm",
    type=click.Choice(["synchronized", "replica"]),
    help="Whose statistics BatchNormalization takes: those of the global batch, or each replica its own, which is "
    "faster and no longer exact.",
    show_default="the config's, or synchronized",
)


communication = choice(
    "--communication",
    ["auto", "nccl", "ring", "shm"],
    "auto",
    "The collectives between devices of several workers: NCCL, a ring over gRPC, or memory that the workers of a host "
    "share.",
)

compression = choice(
    "--compression",
    ["none", "bfloat16", "float16"],
    "none",
    "Send gradients between workers in 16 bits: faster, and no longer exact.",
)


jit = click.option(
    "--jit",
    type=click.Choice(["auto", "on", "off"]),
    help="Compile every model with XLA, as compile(jit_compile=True) does, or none; auto is "
    "what Keras chooses on one such device: XLA on GPUs, none on CPUs.",
    show_default="what the script or the config says, or auto",
)

_JIT_COMPILE = {"auto": "auto", "on": "true", "off": "false"}


kernels = click.option(
    "--kernels",
    type=click.Choice(["auto", "tensorflow", "onednn"]),
    help="By which kernels to compute on the CPU: TensorFlow's own or oneDNN's, the same up to rounding; auto: "
    "oneDNN's where the processor gains by them, unless TF_ENABLE_ONEDNN_OPTS is set.",
    show_default="the config's, or auto",
)


_shard = click.option(
    "--shard",
    type=click.Choice(["none", "zero1", "zero2", "zero3"]),
    help="Give each worker, with one device each, a part of the optimizer's state (zero1), of the gradients too "
    "(zero2), and of the weights (zero3), so that larger models fit.",
    show_default="the config's, or none",
)


_shard_over = click.option(
    "--shard-over",
    type=ShardOverParam(),
    metavar="all|host|N",
    help="Which workers share one copy of what --shard cuts: all of the job; those of each host, so that hosts "
    "exchange sums alone; or N workers of consecutive indices.",
    show_default="the config's, or all",
)


_shard_embeddings = click.option(
    "--shard-embeddings",
    type=RowsParam(),
    metavar="ROWS",
    help="Give each worker, with one device each, some rows of every keras.layers.Embedding of more than ROWS rows, "
    "such as 1e6, and the optimizer's state beside them.",
    show_default="the config's, or no embedding",
)


_offload = click.option(
    "--offload",
    type=click.Choice(["none", "optimizer", "optimizer:disk"]),
    help="Keep the optimizer's state, or each worker's part of it, in the host's memory, or on the disk of the run "
    "directory, and update there: for what a GPU, or the host, has no room for.",
    show_default="the config's, or none",
)


_tensor = click.option(
    "--tensor",
    type=click.IntRange(min=1),
    metavar="N",
    help="Have each N workers of consecutive indices, with one device each, share every large weight: each has a slice "
    "of it, as the model's own layout map says or a derived one.",
    show_default="the config's, or 1",
)


_context = click.option(
    "--context",
    type=click.IntRange(min=1),
    metavar="N",
    help="Have each N workers of consecutive indices, with one device each, share every sequence: each has a slice of "
    "the positions of what layers compute, and of attention some heads. For sequences that one device has no room for.",
    show_default="the config's, or 1",
)


def sharding(command: Callable[..., Any]) -> Callable[..., Any]:
    """Returns what several workers hold together, or keep elsewhere: `--shard` and the options beside it."""
    return _shard(_shard_over(_shard_embeddings(_offload(_tensor(_context(command))))))


def computation(command: Callable[..., Any]) -> Callable[..., Any]:
    """How the workers of a training share devices, and how they compute: `--memory-limit` to `--context`."""
    for option in (sharding, kernels, jit, compression, communication, batch_norm, share_gpu, memory_limit):
        command = option(command)
    return command


OF_CONFIGS = ("batch_norm", "jit", "kernels", "shard", "shard_over", "shard_embeddings", "offload", "tensor", "context")
"""Options that a config has, too: its own holds unless they are given."""


check = click.option(
    "--check",
    type=click.Choice(["auto", "off", "strict"]),
    default="auto",
    show_default=True,
    help="Whether the first step of each kind is compared with what one device computes of a few rows, before it is "
    "made; strict refuses a step that cannot be compared.",
)

strict = click.option(
    "--strict",
    is_flag=True,
    help="Refuse what would only be warned of: what is not exact, or costs more than it need.",
)


def with_chosen(overrides: Sequence[str], **chosen: str | int | None) -> list[str]:
    """A config's overrides with options among them, such as `--batch-norm`: what a run was made with is in its config.

    Args:
        overrides: Those of `--set`.
        **chosen: The values of options by their key in a config; None for an option that was not given. `jit` has a
            key with other values, `compile.jit_compile`.
    """
    jit = chosen.pop("jit", None)
    values = {**chosen, "compile.jit_compile": None if jit is None else _JIT_COMPILE[str(jit)]}
    return [*overrides, *(f"{key}={value}" for key, value in values.items() if value is not None)]


overrides = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Another value for one config entry, dotted; repeatable.",
)

verbose = click.option("--verbose", is_flag=True, help="Say more, and show tracebacks.")

tracebacks = click.option("--verbose", is_flag=True, help="Show tracebacks.")
"""`--verbose` of the verbs that have nothing more to say; `Verb` heeds it."""


def as_json(text: str = "As JSON.") -> Decorator:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help=text)
