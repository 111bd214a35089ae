"""Foreground step: a training in an allocation that is there already, by srun in place of this process."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping, Sequence

from tfdist.errors import UsageError
from tfdist.multihost.slurm.batch_script import ending_options, layout_options
from tfdist.net import shared_token


def step_command(
    *,
    arguments: Sequence[str],
    python: str,
    nodes: int,
    tasks_per_node: int,
    gpus_per_node: int | None,
    start_timeout: float = 120.0,
) -> tuple[str, ...]:
    """The command that trains in an allocation.

    Args:
        arguments: All that follows `tfdist train`.
        python: The Python that runs tfdist on the nodes.
        nodes: How many nodes of the allocation.
        tasks_per_node: Workers on each.
        gpus_per_node: GPUs of each; None for those of the allocation.
        start_timeout: Seconds that the launchers wait for one another.
    """
    # The first Ctrl-C goes to the launchers, which stop after a step; otherwise srun keeps it for itself.
    # The environment goes along, with the secret, even where the allocation was made with --export=NONE.
    options = ["--disable-status", "--export=ALL", *layout_options(nodes, tasks_per_node)]
    options += ending_options(arguments, start_timeout)
    options += [] if gpus_per_node is None else [f"--gpus-per-node={gpus_per_node}"]
    return ("srun", *options, python, "-m", "tfdist", "train", *arguments)


def new_token() -> dict[str, str]:
    """A secret of this start as a variable, by which its launchers know one another."""
    return {shared_token.VARIABLE: secrets.token_hex(32)}


def with_cores(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a step that has the allocation's --cpus-per-task, which srun does not take over by itself."""
    cores = environ.get("SLURM_CPUS_PER_TASK")
    return {**({} if cores is None else {"SRUN_CPUS_PER_TASK": cores}), **environ}


def become_step(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Becomes the command, so that signals and the exit code are its own. Returns only where it cannot.

    Raises:
        UsageError: There is no srun here.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(command[0], list(command), dict(environ))
    except OSError as error:
        raise UsageError(
            f"In an allocation of Slurm, --on slurm calls srun, which cannot be run here: {error.strerror}. Expected "
            "it on the PATH."
        ) from None
