"""`tfdist launch`: starts `tfdist train` on every host of an engine.

Options of `tfdist train` that it takes as well are the parameters of `train` itself: there is no second list of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, get_args

import click
from click.core import ParameterSource

from tfdist.cli import common_options as shared
from tfdist.cli.common_options import SecondsParam
from tfdist.cli.launch.engines import ENGINES, EngineCall, call_engine
from tfdist.cli.train import train
from tfdist.cli.train_target import name_target
from tfdist.errors import UsageError
from tfdist.ray.job.placement import Strategy

LAUNCHERS_OWN = frozenset({"workers", "index", "network", "debug_worker"})
"""The options that the launcher decides for every host, and nobody gives; hosts that it starts have no terminal."""

_TARGET = frozenset({"arguments", "module"})
REFUSED_OF_TRAIN: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "ssh": {"nproc": "--workers-per-host N"},
        "slurm": {
            "nproc": "--tasks-per-node N",
            "overwrite": "another --run-dir (a job that is requeued would begin anew)",
        },
        "ray": {
            "devices": "--gpus-per-worker N, of which Ray chooses",
            "min_workers": "--max-restarts N for workers, and the same command with --resume auto after a lost node",
        },
        "mpi": {
            "nproc": "--workers-per-host N",
            "min_workers": "--on ssh, as mpirun ends all hosts when it loses one",
        },
    }
)
"""Engine -> option of `tfdist train` by its Python name, which it does not take -> what to give instead."""
_ON = "; ".join(f"{name}: {what}" for name, (_, what) in ENGINES.items())


def train_options() -> list[click.Option]:
    """The options of `train` that are passed on to the hosts."""
    return [
        option
        for option in train.params
        if isinstance(option, click.Option) and option.name not in LAUNCHERS_OWN | _TARGET
    ]


def given_options(ctx: click.Context) -> frozenset[str]:
    """The Python names of the options that stand on the command line."""
    return frozenset(name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE)


def train_arguments(ctx: click.Context, without: Collection[str] = ()) -> tuple[str, ...]:
    """The options of `train` that were given, as arguments of `tfdist train`, one argument an option: `--grace=5.0`.

    Args:
        without: The Python names of those that are left out.
    """
    names = given_options(ctx) - set(without)
    written = [_written(option, ctx.params[option.name]) for option in train_options() if option.name in names]
    return tuple(argument for arguments in written for argument in arguments)


def _written(option: click.Option, value: Any) -> list[str]:
    # The long name, which stands last where there is a short one.
    flag = option.opts[-1]
    if option.is_flag:
        return [flag] if value else []
    # One argument an option: a value may begin with a dash.
    return [f"{flag}={_text(each)}" for each in (value if option.multiple else [value])]


def _text(value: Any) -> str:
    """A value as the command line has it; GPUs come as numbers."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return ",".join(map(str, value)) if is_list else str(value)


@dataclass(frozen=True)
class EngineOption:
    """One option of `tfdist launch` that not every engine has.

    Attributes:
        option: The option itself.
        engines: The engines that have it.
        instead: Engine -> what to give there for the same end, for those of the others that have something.
    """

    option: click.Option
    engines: frozenset[str]
    instead: Mapping[str, str] = field(default_factory=dict)


def _of(engines: str, *names: str, instead: Mapping[str, str] | None = None, **settings: object) -> EngineOption:
    option = click.Option(names, **settings)  # type: ignore[arg-type]
    return EngineOption(option, frozenset(engines.split()), MappingProxyType(dict(instead or {})))


ENGINE_OPTIONS: tuple[EngineOption, ...] = (
    _of(
        "ssh mpi",
        "--hostfile",
        metavar="FILE",
        help="The hosts, one a line: `h1` or `h1 slots=2`; # begins a comment.",
    ),
    _of("ssh mpi", "--hosts", metavar="LIST", help="The hosts themselves, instead of a file: h1,h2."),
    _of(
        "ssh mpi",
        "--include",
        metavar="HOSTS",
        help='Use these hosts of the file alone, and these of their slots: "h1:0,1@h2".',
    ),
    _of("ssh mpi", "--exclude", metavar="HOSTS", help="Use all hosts but these, or all but these of their slots."),
    _of(
        "ssh mpi",
        "--workers-per-host",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        metavar="N",
        help="Workers on each host, which share its GPUs and cores.",
    ),
    _of(
        "ssh mpi ray",
        "--env",
        "env",
        multiple=True,
        metavar="NAME,...",
        help="Variables of this environment that the hosts get; repeatable.",
    ),
    _of(
        "ssh mpi ray",
        "--cwd",
        metavar="DIR",
        show_default="this one",
        help="The working directory on every host.",
        instead={"slurm": "no option: call tfdist in that folder (`cd DIR`)"},
    ),
    _of(
        "ssh mpi",
        "--python",
        metavar="PATH",
        show_default="the one here",
        help="Python with tfdist on each host.",
    ),
    _of("ssh", "--ssh", metavar="COMMAND", default="ssh", show_default=True, help='How to call ssh: "ssh -F FILE".'),
    _of(
        "ssh mpi",
        "--connect-timeout",
        type=click.IntRange(min=1),
        default=30,
        show_default=True,
        metavar="S",
        help="How long a host may take to answer.",
    ),
    _of(
        "mpi",
        "--mpirun",
        metavar="COMMAND",
        default="mpirun",
        show_default=True,
        help='How to call mpirun: "mpirun --allow-run-as-root".',
    ),
    _of("ssh", "--detach", is_flag=True, help="Leave the run to the hosts once it is there; `tfdist stop` ends it."),
    _of(
        "ray",
        "--address",
        default="auto",
        show_default=True,
        metavar="HOST:PORT",
        help="The head node of the Ray cluster; auto: that of RAY_ADDRESS, or of this machine.",
    ),
    _of(
        "ray",
        "--cpus-per-worker",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        metavar="N",
        help="Cores that Ray keeps for each worker.",
    ),
    _of(
        "ray",
        "--gpus-per-worker",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        metavar="N",
        help="GPUs of each worker.",
    ),
    _of(
        "ray",
        "--placement",
        type=click.Choice(get_args(Strategy)),
        default="pack",
        show_default=True,
        help="How the workers lie on the nodes: on few, on many, on one alone, or each on a node of its own.",
    ),
    _of(
        "ray",
        "--placement-timeout",
        type=SecondsParam(),
        default=60,
        show_default=True,
        metavar="S",
        help="How long to wait until the Ray cluster has room for the workers.",
    ),
    _of(
        "slurm",
        "--nodes",
        "-N",
        "nodes",
        type=click.IntRange(min=1),
        metavar="N",
        show_default="1",
        help="How many nodes.",
    ),
    _of(
        "slurm",
        "--tasks-per-node",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        metavar="N",
        help="Workers on each node, which share its GPUs.",
    ),
    _of(
        "slurm",
        "--gpus-per-node",
        type=click.IntRange(min=1),
        metavar="N",
        show_default="none",
        help="GPUs of each node.",
    ),
    _of("slurm", "--time", metavar="LIMIT", help="The job's time limit, such as 90 (minutes) or 1-12:00:00."),
    _of("slurm", "--partition", metavar="NAME", show_default="Slurm's", help="The partition."),
    _of(
        "slurm",
        "--sbatch",
        multiple=True,
        metavar="OPTIONS",
        help='Further options of sbatch: --sbatch "--account=physics --mem=64G"; repeatable.',
    ),
    _of("slurm", "--print", "print_only", is_flag=True, help="Print the script of the job, and submit nothing."),
)


def check_options(engine: str, given: Collection[str]) -> None:
    """Checks that what was given belongs to the engine.

    Args:
        engine: The value of `--on`.
        given: The Python names of the options that were given.

    Raises:
        UsageError: An option is another engine's; the text says whose, and what to give instead.
    """
    for each in ENGINE_OPTIONS:
        if each.option.name in given and engine not in each.engines:
            raise _refusal(engine, each)
    for name, instead in REFUSED_OF_TRAIN.get(engine, {}).items():
        if name in given:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"--on {engine} has no {flag}. Expected {instead}. Received: {flag}")


def _refusal(engine: str, option: EngineOption) -> UsageError:
    flag, engines = option.option.opts[0], _offered(option)
    instead = option.instead.get(engine)
    remedy = f"Expected {instead}." if instead else f"Leave {flag} out, or choose {engines}."
    return UsageError(f"{flag} belongs to {engines}. Received: {flag} with --on {engine}. {remedy}")


def _offered(option: EngineOption) -> str:
    return " or ".join(f"--on {name}" for name in sorted(option.engines & ENGINES.keys()))


class LaunchVerb(shared.TargetVerb):
    """Has the engines' options, each under the engines that have it, and those of `train`."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params += [*(each.option for each in ENGINE_OPTIONS if each.engines & ENGINES.keys()), *train_options()]

    def own_sections(self) -> dict[str, list[click.Option]]:
        found: dict[str, list[click.Option]] = {}
        for each in ENGINE_OPTIONS:
            *others, last = [engine for engine in ENGINES if engine in each.engines] or [""]
            engines = f"{', '.join(others)} or {last}" if others else last
            if engines:
                found.setdefault(f"With --on {engines}", []).append(each.option)
        return found

    def help_record(self, ctx: click.Context, option: click.Option) -> tuple[str, str] | None:
        record = super().help_record(ctx, option)
        is_of_train = option.name in {each.name for each in train_options()}
        return record and (record[0], record[1] + (_where_refused(str(option.name)) if is_of_train else ""))


def _where_refused(name: str) -> str:
    """For the help of an option of `train`: the engines that do not take it, and nothing where all do."""
    engines = [engine for engine, refused in REFUSED_OF_TRAIN.items() if name in refused and engine in ENGINES]
    return f"  Not with --on {', '.join(engines)}." if engines else ""


@click.command(cls=LaunchVerb, options_metavar="[OPTIONS]")
@shared.target("Train")
@shared.choice("--on", list(ENGINES), "ssh", f"What starts the hosts. {_ON}.")
@click.pass_context
def launch(ctx: click.Context, /, arguments: tuple[str, ...], module: str | None, on: str, **options: Any) -> None:
    """Starts `tfdist train` on many hosts, by one command, and ends all of it together.

    TARGET is a YAML config (default ./tfdist.yaml), a Python script, or -m MODULE, as the hosts see it. After a config
    options may follow; after a script or a module everything is its own. What is no option of an engine is one of
    `tfdist train`, and goes to every host.
    """
    if options["log_format"] == "json":
        from tfdist.launch.logs.log_records import LogRecords, recorded_streams

        ctx.with_resource(recorded_streams(LogRecords()))
    given = given_options(ctx)
    check_options(on, given)
    of_train = {str(option.name) for option in train_options()}
    call = EngineCall(
        target=name_target(module, arguments),
        options={name: value for name, value in options.items() if name not in of_train},
        train={name: value for name, value in options.items() if name in of_train},
        train_arguments=train_arguments(ctx),
        given=given,
        verbose=options["verbose"],
    )
    ctx.exit(call_engine(on, call))
