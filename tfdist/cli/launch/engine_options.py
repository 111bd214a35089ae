"""The options of the engines of `tfdist launch`, and which belongs to which."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import get_args

import click

from tfdist.cli.common_options import SecondsParam
from tfdist.cli.launch.engines import ENGINES
from tfdist.errors import UsageError
from tfdist.ray.job.placement import Strategy


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
