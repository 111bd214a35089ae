"""The parts of an elastic job: the job of one generation, and how it is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from tfdist.cluster.membership import Membership
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.rendezvous.missing_workers import print_progress
from tfdist.launch.run_result import RunResult
from tfdist.launch.signals import Signals

FORMING_SECONDS = 30.0
"""Seconds that the launchers of a generation, which have all met the chief's before, may take to meet one another."""


class RunJob(Protocol):
    """Runs a generation, as `job.run_to_result` does."""

    def __call__(self, spec: JobSpec, signals: Signals) -> RunResult: ...


@dataclass(frozen=True)
class JobSteps:
    """The parts that an elastic job is made of; tests give fakes.

    Attributes:
        run: Runs one generation.
        report: Prints how one failed or was stopped.
        say: Prints a line.
    """

    run: RunJob
    report: Callable[[JobSpec, RunResult], None]
    say: Callable[[str], None] = print_progress


def job_of_generation(spec: JobSpec, membership: Membership, *, is_first: bool) -> JobSpec:
    """The job of one generation."""
    # All members are there: one that is not is lost, and need not be waited for as hosts that have yet to start.
    timeout = min(spec.start_timeout, FORMING_SECONDS)
    job = replace(spec, membership=membership, restarts=False, start_timeout=timeout, goes_on=not is_first)
    return job if is_first else replace(job, resume="auto", overwrite=False)
