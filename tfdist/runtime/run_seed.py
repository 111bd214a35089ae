"""Seed of this process's run, which datasets take that are given none, under whatever strategy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class RunSeed:
    """The seed of a process's run.

    Attributes:
        value: The run's seed once there is a session; 0 outside of a run.
    """

    value: int = 0


run_seed = RunSeed()
"""That of this process: a process has one run, but a script may make several strategies."""
