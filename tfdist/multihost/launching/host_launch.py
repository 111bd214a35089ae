"""Launch on hosts: connects to all, checks them, starts `tfdist train` on each, and sees it to its end.

Detachment: leaves a run to its hosts once it has formed, and says how to watch and stop it from there.

Launch plan: the cluster that the hosts' answers make.
"""

from __future__ import annotations

import dataclasses
import secrets
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from tfdist.cluster.cluster_spec import Address, Cluster
from tfdist.errors import FormingError, UsageError
from tfdist.launch.environment import TargetKind
from tfdist.launch.logs.log_records import LogRecords
from tfdist.launch.signals import LauncherStopped, Signals
from tfdist.multihost.hosts import Host
from tfdist.multihost.launching.host_group import HostGroup, LaunchHost
from tfdist.multihost.launching.host_link import HostLink, HostProblem, launch_error, names
from tfdist.multihost.launching.output_display import OutputDisplay
from tfdist.multihost.launching.protocol import HostFacts, HostSpec
from tfdist.multihost.launching.run_watch import RunWatch
from tfdist.multihost.launching.start_again import ElasticLaunch, HostReturns, StartAgain
from tfdist.net import shared_token
from tfdist.versions import VERSION


def plan_cluster(found: Mapping[Host, HostFacts]) -> Cluster:
    """The workers of all hosts, host by host; the first host has the chief.

    Workers get the address by which ssh reached their host, which needs no name on the others. Where that is one of
    loopback, or is translated on the way, they get the host's name.

    Raises:
        UsageError: Two names are the same host.
        ClusterError: The addresses make no cluster.
    """
    seen: dict[tuple[str, str], str] = {}
    for host, facts in found.items():
        other = seen.setdefault((facts.boot, facts.host), host.name)
        if other != host.name:
            raise UsageError(
                f"{other} and {host.name} are the same host, {facts.host}. Expected each once. For several workers on "
                "each host, add --workers-per-host N. Nothing was started."
            )
    places = [(facts.address or host.name, port) for host, facts in found.items() for port in facts.ports]
    return Cluster(tuple(Address(address, port) for address, port in places))


def unused_slots(found: Mapping[Host, HostFacts]) -> str:
    """Returns what to say of hosts whose slots stand for nothing, as they have no GPU; empty where there are none."""
    hosts = [host.name for host, facts in found.items() if host.slots and not facts.gpus]
    if not hosts:
        return ""
    return (
        f"note: no GPU on {names(hosts)}, so slots do not count there; --workers-per-host N says how many workers run"
    )


_EXTRA_SECONDS = 60.0
"""Extra seconds that the run may take to be there after the time for the cluster to form: its launcher has to start."""
_LEAVE_SECONDS = 10.0


@dataclass(frozen=True)
class HostLaunch:
    """The description of what is launched.

    Attributes:
        hosts: In their order; the first has the chief.
        target_kind: What `target` is.
        target: What is trained, as `tfdist train` takes it.
        arguments: Of `tfdist train`, but for the cluster and the devices.
        cwd: The working directory on every host.
        workers_per_host: How many workers each host has.
        variables: What the hosts get into their environment.
        grace: Seconds in which workers may come to a step boundary.
        start_timeout: Seconds in which the cluster must form.
        connect_seconds: How long a host may take to answer ssh.
        ssh: How the user calls ssh, for commands that are printed.
        detached_run: The run directory of a run that is left to the hosts; None for one that is watched.
        elastic: For a run that may go on without a host; None for others.
        as_records: Whether the hosts print JSON, which gets no names.
        quiet: Whether nothing is said of the launch itself.
        verbose: Whether the reports of all hosts are shown.
    """

    hosts: tuple[Host, ...]
    target_kind: TargetKind
    target: str
    arguments: tuple[str, ...]
    cwd: str
    workers_per_host: int = 1
    variables: dict[str, str] = dataclasses.field(default_factory=dict, repr=False)
    grace: float = 30.0
    start_timeout: float = 120.0
    connect_seconds: int = 30
    ssh: tuple[str, ...] = ("ssh",)
    detached_run: str | None = None
    elastic: ElasticLaunch | None = None
    as_records: bool = False
    quiet: bool = False
    verbose: bool = False


class Links(Protocol):
    """The means by which hosts are reached."""

    def open(self, host: Host, spec: HostSpec) -> HostLink:
        """Connects to a host, and tells it what to check."""
        ...

    def explain(self, host: Host, link: HostLink, code: int | None) -> HostProblem:
        """Returns why a host has never answered: by what its program exited with, None when time is over."""
        ...


def run_host_launch(launch: HostLaunch, links: Links) -> int:
    """Runs a launch to its end, or until it is left to the hosts; returns the exit code.

    Raises:
        UsageError: A host has no such interpreter, working directory or target, or another tfdist; or a name is given
            twice; or there is no ssh.
        FormingError: A host is out of reach.
    """
    names_of_hosts = [host.name for host in launch.hosts]
    # Launchers prove to one another that they have the token; nobody else gets it, and no command line shows it.
    launch = dataclasses.replace(
        launch, variables={**launch.variables, shared_token.VARIABLE: secrets.token_hex(32)}
    )
    display = OutputDisplay(names_of_hosts, *_streams(), LogRecords() if launch.as_records else None)
    with Signals() as signals, HostGroup(launch.hosts, signals) as group:
        try:
            cluster = _connect(launch, links, group, display)
        except LauncherStopped as stopped:
            display.say(f"stopped: {stopped}; nothing was started")
            return stopped.exit_code
        order = {"workers": str(cluster), "use_slots": True}
        ports = {host.host.name: host.facts.ports for host in group.hosts if host.facts is not None}
        for host in group.hosts:
            group.start(host, **order)
        again = None if launch.detached_run is not None else _start_again(launch, links, group, display, order, ports)
        is_elastic = launch.elastic is not None
        watch = RunWatch(group, display, signals, launch.grace, is_elastic=is_elastic, again=again)
        if launch.detached_run is not None:
            return leave_to_hosts(watch, group, display, launch.start_timeout, launch.ssh)
        code = watch.run()
    _say_cause(watch, display, launch)
    return code


def _connect(launch: HostLaunch, links: Links, group: HostGroup, display: OutputDisplay) -> Cluster:
    """Connects to all hosts, and makes the cluster of what they say."""
    nonce = secrets.token_hex(16)

    def connect(host: Host) -> HostLink:
        return links.open(host, _spec(launch, host, nonce))

    problems = group.connect(connect, links.explain, launch.connect_seconds)
    if problems:
        raise launch_error(problems, len(launch.hosts))
    found: dict[Host, HostFacts] = {host.host: host.facts for host in group.hosts if host.facts is not None}
    cluster = plan_cluster(found)
    if not launch.quiet:
        note = unused_slots(found)
        workers = f"{len(cluster)} worker(s) on {len(found)} host(s): {names(host.name for host in found)}"
        for text in filter(None, (note, f"launching {workers}")):
            display.say(text)
    return cluster


def _start_again(
    launch: HostLaunch,
    links: Links,
    group: HostGroup,
    display: OutputDisplay,
    order: dict[str, object],
    ports: dict[str, tuple[int, ...]],
) -> StartAgain | None:
    """Returns how parts of an elastic run start again; None for other runs."""
    elastic = launch.elastic
    if elastic is None:
        return None

    def connect(host: Host) -> HostLink:
        spec = _spec(launch, host, secrets.token_hex(16))
        return links.open(
            host, dataclasses.replace(spec, arguments=elastic.arguments_again, ports=ports[host.name])
        )

    returns = HostReturns(group, connect, links.explain, launch.connect_seconds, display.say)
    return StartAgain(returns, elastic, order)


def _spec(launch: HostLaunch, host: Host, nonce: str) -> HostSpec:
    run = launch.detached_run
    return HostSpec(
        version=VERSION,
        nonce=nonce,
        cwd=launch.cwd,
        target_kind=launch.target_kind,
        target=launch.target,
        arguments=launch.arguments,
        workers=launch.workers_per_host,
        slots=host.slots,
        grace=launch.grace,
        variables=launch.variables,
        output=None if run is None else f"{run}.{host.name}.log",
        run_dir=run if launch.elastic is None else launch.elastic.run_dir,
        is_expendable=launch.elastic is not None and host is not launch.hosts[0],
    )


def _say_cause(watch: RunWatch, display: OutputDisplay, launch: HostLaunch) -> None:
    """Says once what ended the run, whatever each host says of it."""
    cause = watch.cause
    if cause is None:
        return
    report = display.report(cause.host or launch.hosts[0].name) if cause.code else ""
    if cause.text:
        display.say(cause.text + ("; all hosts have ended" if cause.host is None else ""))
        # Of hosts that were told to stop only what is more than that they were.
        report = "\n".join(report.splitlines()[1:]) if report.startswith("stopped: ") else ""
    if report:
        display.say(report)
    if launch.verbose and (every := display.all_reports()):
        display.say(f"the reports of all hosts:\n{every}")


def _streams() -> tuple[BinaryIO, BinaryIO]:
    sys.stdout.flush()
    sys.stderr.flush()
    out: Sequence[BinaryIO] = (sys.stdout.buffer, sys.stderr.buffer)
    return out[0], out[1]


def leave_to_hosts(
    watch: RunWatch, group: HostGroup, display: OutputDisplay, start_timeout: float, ssh: Sequence[str]
) -> int:
    """Waits until the run has formed, and lets go of the hosts.

    Args:
        watch: Sees the run to its end where it ends at once.
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
    """Returns how to go on with a run that was left to its hosts."""
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
