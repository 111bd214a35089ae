"""`python -m benchmarks scale`: launchers by the hundred, on network namespaces of this machine."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.comparison.common_options import folder_of, positive, positive_numbers, seconds
from benchmarks.comparison.host_facts import describe, host_facts
from benchmarks.comparison.other_work import OtherWork
from benchmarks.scale.job_process import ScaleError
from benchmarks.scale.measurement import Measured, measure
from benchmarks.scale.report import Found, figures, picture, report
from tfdist.verify.hosts.namespace_hosts import NamespacesUnavailableError

_FEWEST = 3


def main(arguments: Sequence[str]) -> int:
    """Measures, prints and writes; the exit code is 1 if a job did not form or end as it should."""
    options, parser = _parsed(arguments)
    folder = folder_of(parser, "scale", options)
    facts, others = host_facts(), OtherWork()
    heading = ["# Launchers by number", "", *describe(facts, None), _how(options)]
    print("\n".join([*heading, "", f"Results are written to {folder.path}", ""]), flush=True)
    found: Found = {launchers: [] for launchers in options.launchers}
    failures: list[str] = []
    for number in range(1, options.rounds + 1):
        for launchers in options.launchers:
            measured = _measure(launchers, options, failures)
            found[launchers] += [] if measured is None else [measured]
            print(f"{launchers} launchers, round {number} of {options.rounds}: {_say(measured)}", flush=True)
            page = report([*heading, "", others.describe()], found, failures)
            host = {"host": facts, "hosts": options.hosts, "seconds": options.seconds, "others": others.cores()}
            folder.write(page, picture(found), {**host, "failures": failures, "jobs": figures(found)})
    print(f"\n{(folder.path / 'scale.md').read_text()}\nWritten to {folder.path}", flush=True)
    return 1 if failures else 0


def _measure(launchers: int, options: argparse.Namespace, failures: list[str]) -> Measured | None:
    with tempfile.TemporaryDirectory(prefix="tfdist-scale-") as name:
        try:
            return measure(launchers, options.hosts, options.seconds, options.limit, Path(name))
        except (ScaleError, NamespacesUnavailableError) as error:
            failures.append(f"{launchers} launchers: {error}")
            return None


def _parsed(arguments: Sequence[str]) -> tuple[argparse.Namespace, argparse.ArgumentParser]:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks scale", description="Forms, watches and ends jobs of many launchers."
    )
    parser.add_argument("--launchers", type=positive_numbers, default="64,256,1000", help="how many; 64,256,1000")
    parser.add_argument("--hosts", type=positive, default=8, help="network namespaces that they are on; 8")
    parser.add_argument("--seconds", type=seconds, default=20.0, help="how long each job is watched; 20")
    parser.add_argument("--rounds", type=positive, default=3, help="of all numbers; 3")
    parser.add_argument("--limit", type=seconds, default=300.0, help="seconds in which a job must form; 300")
    parser.add_argument("--out", metavar="DIR", help="where the results are written; below build/benchmarks")
    options = parser.parse_args(arguments)
    if min(options.launchers) < max(_FEWEST, options.hosts):
        parser.error(f"--launchers: expected at least {_FEWEST}, and one for each of the --hosts.")
    return options, parser


def _how(options: argparse.Namespace) -> str:
    return (
        f"{options.hosts} network namespaces; the first and the last launcher are processes with a worker each, "
        "the others threads of one process a host, which run the same code with workers that are objects. "
        f"{options.seconds:g} s of training, a report of each worker in a second."
    )


def _say(measured: Measured | None) -> str:
    if measured is None:
        return "failed"
    return (
        f"formed in {measured.form_seconds:.2f} s, {100 * measured.train_share:.1f} % of a core for the chief's, "
        f"all ended {measured.end_seconds:.2f} s after a death"
    )
