"""`python -m benchmarks all-reduce`: the sum of a gradient over the workers, alone, under each `--communication`.

Beside gloo, where there is a PyTorch. On this machine, or with `--hosts` on several hosts, which are network namespaces
of it with links of a rate. The ends of every sum are checked, and the last one of each size and round whole. A round's
figure is the median of its slowest worker.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.all_reduce_report import Place, figures, picture, report
from benchmarks.comparison.common_options import add_common, cores_of, folder_of, positive_numbers, torch_of
from benchmarks.comparison.failure_section import exit_code
from benchmarks.comparison.host_facts import describe, free_memory, host_facts
from benchmarks.comparison.other_work import OtherWork
from benchmarks.comparison.process_group import Command
from benchmarks.comparison.rounds import Processes, Record
from benchmarks.comparison.torch_python import TorchPython
from benchmarks.comparison.turns import lifetime, run_in_turns, run_with_starts
from benchmarks.workers.all_reduce_spec import AllReduceSpec
from tfdist.cli.train import train
from tfdist.text import format_count
from tfdist.verify.hosts.namespace_hosts import (
    LINK,
    NamespaceHost,
    NamespacesUnavailableError,
    check_rate,
    namespace_hosts,
)

SIZES = {4_000: 300, 2_700_000: 30, 98_000_000: 3}
"""Bytes -> how often they are summed in a round: a bias, and all gradients of `mlp` and of `wide`."""

_GPUS_ONLY = ("nccl",)
_BETWEEN_HOSTS = "auto,ring,auto+bfloat16"
_WAITING, _GLOO_WAITING, _WORKING = 770_000_000, 330_000_000, 330_000_000
"""Bytes of a worker of tfdist and of gloo between its turns, and what one takes besides in its turn, and a tenth."""

_PORT = 20_000
"""The first of those between hosts. Each job has its own, as all are there at once."""


@dataclass(frozen=True)
class Engine:
    """How tfdist sums.

    Attributes:
        communication: A value of `tfdist train --communication`.
        compression: One of `--compression`; None for the one by default.
    """

    communication: str
    compression: str | None

    @property
    def name(self) -> str:
        """What its column is called."""
        return f"tfdist, {'+'.join(filter(None, (self.communication, self.compression)))}"

    @property
    def options(self) -> tuple[str, ...]:
        """The options of `tfdist train`."""
        compression = () if self.compression is None else ("--compression", self.compression)
        return ("--communication", self.communication, *compression)

    def serves(self, place: Place) -> bool:
        """Whether a job there can be asked for it."""
        least = {"shm": place.workers, "ring": place.total}
        return least.get(self.communication, 2) > 1


def main(arguments: Sequence[str]) -> int:
    """Measures, prints and writes; the exit code is 1 if a contestant failed."""
    options, parser = _parsed(arguments)
    torch = torch_of(parser, options)
    folder = folder_of(parser, "all-reduce", options)
    facts, cores, others = host_facts(), cores_of(options), OtherWork()
    heading = ["# All-reduce alone", "", *describe(facts, torch and torch.facts), _how(options, cores)]
    print("\n".join([*heading, "", f"Results are written to {folder.path}", ""]), flush=True)
    host = {"host": facts, "torch": None if torch is None else torch.facts, "cores": list(cores), "rate": options.rate}
    found: dict[Place, dict[str, Record]] = {}
    for place in (Place(hosts, workers) for hosts in options.hosts for workers in options.workers):
        engines_here = [engine for engine in options.communication if engine.serves(place)]
        with contextlib.ExitStack() as stack:
            several = place.hosts > 1
            hosts = stack.enter_context(namespace_hosts(place.hosts, options.rate)) if several else None
            stay = memory_of_all(place, len(engines_here), torch is not None) < free_memory()
            turns = options.rounds if stay else 1
            job = SumJob(place, cores, turns, options.limit, tuple(options.train_options), hosts)
            run = run_in_turns if stay else run_with_starts
            started = job.contestants(engines_here, torch)
            found[place] = run(started, options.rounds, options.limit, _say(place, options.rounds))
        page = report([*heading, "", others.describe()], list(SIZES), found)
        folder.write(page, picture(list(SIZES), found), {**host, "others": others.cores(), "sums": figures(found)})
    print(f"\n{(folder.path / 'all-reduce.md').read_text()}\nWritten to {folder.path}", flush=True)
    return exit_code(found.values())


def memory_of_all(place: Place, engines: int, with_gloo: bool) -> int:
    """Bytes that the jobs of all contestants need, if they are there at once: one works, the others wait."""
    return place.total * (engines * _WAITING + with_gloo * _GLOO_WAITING + _WORKING)


def engines() -> tuple[str, ...]:
    """The values of `tfdist train --communication` that a CPU has."""
    return tuple(value for value in _choices("communication") if value not in _GPUS_ONLY)


def compressions() -> tuple[str, ...]:
    """The values of `tfdist train --compression` that change something."""
    return tuple(value for value in _choices("compression") if value != "none")


def _choices(name: str) -> Sequence[str]:
    (option,) = (parameter for parameter in train.params if parameter.name == name)
    return option.type.choices


def _parsed(arguments: Sequence[str]) -> tuple[argparse.Namespace, argparse.ArgumentParser]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks all-reduce", description="All-reduce alone.")
    parser.add_argument(
        "--hosts",
        type=positive_numbers,
        default="1",
        help="numbers of hosts, which are network namespaces of this machine, with --workers on each; this machine",
    )
    parser.add_argument("--rate", type=_rate, default="1gbit", help="what the link of each host carries; 1gbit")
    parser.add_argument(
        "--communication",
        type=_engines,
        help=f"{', '.join(engines())}, or one of them with +{' or +'.join(compressions())}; all without, between hosts "
        f"{_BETWEEN_HOSTS}",
    )
    add_common(parser, workers="2", rounds=5, limit=600)
    options = parser.parse_args(arguments)
    options.communication = options.communication or _engines(
        _BETWEEN_HOSTS if max(options.hosts) > 1 else ",".join(engines())
    )
    if max(options.hosts) == 1:
        options.rate = None
        return options, parser
    try:
        with namespace_hosts(1, options.rate):
            pass
    except NamespacesUnavailableError as error:
        parser.error(f"--hosts: {error} Without --hosts, workers of one host sum.")
    return options, parser


def _how(options: argparse.Namespace, cores: tuple[int, ...]) -> str:
    links = "" if options.rate is None else f" Hosts are network namespaces, each with a link of {options.rate}."
    return (
        "Milliseconds until a float32 vector is summed over the workers, each on a core of its own as far as there are "
        f"some (cores {', '.join(map(str, cores))}); medians of {format_count(options.rounds, 'round')} in turn, with "
        f"the range.{links}"
    )


@dataclass(frozen=True)
class SumJob:
    """What all contestants do at one place.

    Attributes:
        place: How many workers, and on how many hosts.
        cores: Those of the machine to use; worker I runs on the I-th, from the start again where there are fewer.
        rounds: How many a job stays for.
        seconds: How long a contestant may take to start, and in a round.
        train_options: Options for `tfdist train`.
        hosts: The hosts; None for this machine.
    """

    place: Place
    cores: tuple[int, ...]
    rounds: int
    seconds: float
    train_options: tuple[str, ...] = ()
    hosts: Sequence[NamespaceHost] | None = None

    def contestants(self, engines: Sequence[Engine], torch: TorchPython | None) -> dict[str, Processes]:
        """Who sums, by name."""
        life = lifetime(len(engines) + (torch is not None), self.rounds, self.seconds)
        sizes = {str(size): times for size, times in SIZES.items()}
        spec = AllReduceSpec(self.place.total, sizes, self.cores[: self.place.total], self.rounds, life, "")
        started: dict[str, Processes] = {
            engine.name: functools.partial(self._tfdist, spec, engine.options, _PORT + number * self.place.workers)
            for number, engine in enumerate(engines)
        }
        return started if torch is None else {**started, "gloo": functools.partial(self._gloo, spec, torch.path)}

    @contextlib.contextmanager
    def _tfdist(
        self, spec: AllReduceSpec, options: tuple[str, ...], port: int, folder: Path
    ) -> Iterator[list[Command]]:
        target = ("-m", "benchmarks.workers.tensorflow_all_reduce", replace(spec, folder=str(folder)).argument())
        # A worker's wait for the job's next turn looks like a long step.
        patience = str(math.ceil(spec.seconds))
        bounds = ("--first-step-timeout", patience, "--step-timeout", patience)

        def launcher(prefix: Sequence[str], workers: Sequence[str], run: str) -> Command:
            run_dir = ("--run-dir", str(folder / run))
            train = (sys.executable, "-m", "tfdist", "train", *workers, *run_dir, *bounds, *options)
            return Command((*prefix, *train, *self.train_options, *target), spec.cores)

        if self.hosts is None:
            yield [launcher((), ("--nproc", str(spec.workers)), "run")]
        else:
            ports = range(port, port + self.place.workers)
            addresses = ",".join(f"{host.ipv4}:{port}" for host in self.hosts for port in ports)
            yield [launcher(host.prefix, ("--workers", addresses), host.name) for host in self.hosts]

    @contextlib.contextmanager
    def _gloo(self, spec: AllReduceSpec, python: str, folder: Path) -> Iterator[list[Command]]:
        commands = []
        for index in range(spec.workers):
            prefix = () if self.hosts is None else self.hosts[index // self.place.workers].prefix
            link = {} if self.hosts is None else {"GLOO_SOCKET_IFNAME": LINK}
            program = (*prefix, python, "-m", "benchmarks.workers.torch_all_reduce")
            argument = replace(spec, folder=str(folder), index=index).argument()
            core = spec.cores[index % len(spec.cores)]
            commands.append(Command((*program, argument), (core,), {"OMP_NUM_THREADS": "1", **link}))
        yield commands


def _engines(text: str) -> tuple[Engine, ...]:
    chosen = []
    for part in dict.fromkeys(text.split(",")):
        communication, plus, compression = part.partition("+")
        if communication not in engines() or (plus and compression not in compressions()):
            raise argparse.ArgumentTypeError(
                f"expected some of {', '.join(engines())}, each also with +{' or +'.join(compressions())}. "
                f"Received: {text!r}"
            )
        chosen.append(Engine(communication, compression or None))
    return tuple(chosen)


def _rate(text: str) -> str:
    try:
        return check_rate(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _say(place: Place, rounds: int) -> Callable[[int, str, Record], None]:
    def say(number: int, name: str, record: Record) -> None:
        came = ("done" if number >= 0 else "started") if record.failure is None else f"failed. {record.failure}"
        when = f", round {number + 1} of {rounds}" if number >= 0 else ""
        print(f"{place}{when}: {name} {came}", flush=True)

    return say
