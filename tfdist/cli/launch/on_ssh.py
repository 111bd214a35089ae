"""`tfdist launch --on ssh`: from the options to a launch."""

from __future__ import annotations

import os
import sys

from tfdist.cli.launch.engines import EngineCall
from tfdist.cluster.environment_variables import chosen_variables
from tfdist.cluster.kubernetes import start_seconds
from tfdist.errors import UsageError
from tfdist.launch.elastic.elastic_options import MAX_RESTARTS, REJOIN_SECONDS
from tfdist.multihost.hosts import choose_hosts
from tfdist.multihost.launching.host_launch import HostLaunch, run_host_launch
from tfdist.multihost.launching.start_again import ElasticLaunch
from tfdist.multihost.ssh import SshLinks, parse_ssh
from tfdist.rundir.run_dir_creation import DEFAULT_PARENT, dated_name

_OF_THE_FIRST_START = ("--run-dir=", "--resume=", "--overwrite")


def launch_on_ssh(call: EngineCall) -> int:
    """Trains on the hosts of a hostfile; returns the exit code.

    Raises:
        TfdistError: Something is in the way; nothing was started.
    """
    options = call.options
    links = SshLinks(parse_ssh(options["ssh"]), chosen_python(call), options["connect_timeout"])
    return run_host_launch(host_launch(call), links)


def chosen_python(call: EngineCall) -> str:
    """The interpreter on every host."""
    return call.options["python"] or sys.executable


def host_launch(call: EngineCall) -> HostLaunch:
    """Returns what is launched on the hosts that the options name.

    Raises:
        UsageError: The options name no hosts, or contradict one another.
    """
    options, train = call.options, call.train
    hosts = choose_hosts(options["hostfile"], options["hosts"], options["include"], options["exclude"])
    if train["devices"] is not None and any(host.slots for host in hosts):
        raise UsageError(
            "Slots of hosts and --devices both say which GPUs to use. Expected one of the two. Received: --devices "
            f"{','.join(map(str, train['devices']))} and slots of {next(host.name for host in hosts if host.slots)}"
        )
    arguments, run_dir = call.arguments, train["run_dir"]
    is_elastic = train["min_workers"] is not None
    if run_dir is None and (options["detach"] or is_elastic):
        # Known here, so that the hosts can be asked how it goes, and another start goes on in it.
        run_dir = os.path.join(DEFAULT_PARENT, dated_name(call.target.name))
        arguments = (f"--run-dir={run_dir}", *arguments)
    return HostLaunch(
        hosts=hosts,
        target_kind=call.target.kind,
        target=call.target.target,
        arguments=arguments,
        cwd=options["cwd"] or os.getcwd(),
        workers_per_host=options["workers_per_host"],
        variables=chosen_variables(options["env"]),
        grace=train["grace"],
        start_timeout=train["start_timeout"] or start_seconds(),
        connect_seconds=options["connect_timeout"],
        ssh=parse_ssh(options["ssh"]),
        detached_run=run_dir if options["detach"] else None,
        elastic=_elastic(call, run_dir) if is_elastic else None,
        as_records=train["log_format"] == "json",
        quiet=train["quiet"],
        verbose=call.verbose,
    )


def _elastic(call: EngineCall, run_dir: str) -> ElasticLaunch:
    kept = [argument for argument in call.train_arguments if not argument.startswith(_OF_THE_FIRST_START)]
    most = call.train["max_restarts"] if "max_restarts" in call.given else MAX_RESTARTS
    return ElasticLaunch(
        run_dir,
        (f"--run-dir={run_dir}", "--resume=auto", *kept, *call.target.arguments),
        call.train["rejoin_timeout"] or REJOIN_SECONDS,
        most,
    )
