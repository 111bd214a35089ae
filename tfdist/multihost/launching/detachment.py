"""Detachment: leaves a run to its hosts once it has formed, and says how to watch and stop it from there."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence

from tfdist.errors import FormingError
from tfdist.multihost.launching.host_group import HostGroup, LaunchHost
from tfdist.multihost.launching.host_problems import names
from tfdist.multihost.launching.output_display import OutputDisplay
from tfdist.multihost.launching.run_watch import RunWatch

_EXTRA_SECONDS = 60.0
"""How much longer than the cluster to form the run may take to be there: its launcher has to start."""
_LEAVE_SECONDS = 10.0


def leave_to_hosts(
    watch: RunWatch, group: HostGroup, display: OutputDisplay, start_timeout: float, ssh: Sequence[str]
) -> int:
    """Waits until the run has formed, and lets go of the hosts.

    Args:
        watch: Sees the run to its end where it ends at once.
        group: The hosts, told to start.
        display: For what is said.
        start_timeout: Seconds in which the cluster must form.
        ssh: How the user calls ssh.

    Returns:
        The exit code: 0 when the run goes on without this process, else how it ended.
    """
    chief = group.hosts[0]
    deadline = time.monotonic() + start_timeout + _EXTRA_SECONDS
    code = watch.run(lambda: chief.formed is not None or watch.cause is not None or time.monotonic() > deadline)
    if chief.formed is not None and watch.cause is None:
        group.tell(leave=True)
        leaving = time.monotonic() + _LEAVE_SECONDS
        while any(host.link is not None and host.link.poll() is None for host in group.hosts):
            if time.monotonic() > leaving:
                break
            group.hear()
        display.say(told(group, chief, ssh))
        return 0
    if watch.cause is None:
        raise FormingError(
            f"The run has not formed in {start_timeout:g} s, and was stopped. Its output lies beside the run directory "
            f"on each host, {names(host.host.name for host in group.hosts)}."
        )
    code = watch.run()
    ended = next((host for host in group.hosts if host.last_output), None)
    if watch.cause.text:
        display.say(watch.cause.text)
    if ended is not None:
        display.say(f"{ended.host.name}:\n{ended.last_output.rstrip()}")
    return code


def told(group: HostGroup, chief: LaunchHost, ssh: Sequence[str]) -> str:
    """How to go on with a run that was left to its hosts."""
    assert chief.facts is not None and chief.formed is not None
    hosts = names(host.host.name for host in group.hosts)
    there = f"{shlex.join(ssh)} {chief.host.name}"
    python, run = shlex.quote(chief.facts.python), shlex.quote(chief.formed)
    watch, stop = (shlex.quote(f"{python} -m tfdist {verb} {run}") for verb in ("status", "stop"))
    return (
        f"detached: {chief.formed} on {hosts}\n"
        f"  watch it: {there} {watch}\n"
        f"  stop it:  {there} {stop}\n"
        f"  output:   {chief.formed}.{chief.host.name}.log, and on every other host under its name"
    )
