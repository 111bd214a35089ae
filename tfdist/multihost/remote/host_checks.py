"""Checks on a host, before anything starts there: its working directory, the target, ports, GPUs."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import socket
import sys
from pathlib import Path

from tfdist.cluster.cluster_spec import is_loopback
from tfdist.cluster.interfaces import own_addresses
from tfdist.cluster.ports import candidate_ports
from tfdist.errors import ClusterError, PortTakenError, RunDirError, TfdistError, UsageError
from tfdist.launch.requeue_policy import read_starts
from tfdist.multihost.launching.protocol import HostFacts, HostSpec
from tfdist.net.port_reservation import PortReservation
from tfdist.rundir.layout import RunDir
from tfdist.versions import VERSION

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_DEVICES = Path("/dev")


def check_version(spec: HostSpec) -> None:
    """Raises `UsageError` where this host's tfdist is another version than the launching host's."""
    if spec.version != VERSION:
        raise UsageError(
            f"has tfdist {VERSION} (in {sys.executable}). Expected {spec.version}, as here. Install the same version "
            "on every host, or name another interpreter with --python"
        )


def enter_working_directory(spec: HostSpec) -> None:
    """Changes to the working directory; raises `UsageError` where there is none."""
    try:
        os.chdir(spec.cwd)
    except OSError as error:
        raise UsageError(
            f"cannot work in {spec.cwd}: {error.strerror}. Expected a directory that is the same on every host. Give "
            "it with --cwd DIR, or make it there"
        ) from None


def check_target(spec: HostSpec) -> None:
    """Checks that the target is in the working directory, which must have been entered.

    Raises:
        UsageError: It is not; the text says what was looked for.
    """
    if spec.target_kind != "module":
        try:
            with open(spec.target, "rb"):
                return
        except OSError as error:
            raise UsageError(
                f"cannot read {spec.target} in {spec.cwd}: {error.strerror}. Expected it on every host. Copy it there, "
                "or name the directory that has it with --cwd DIR"
            ) from None
    package = spec.target.partition(".")[0]
    # As `python -m` finds it. Only the package: finding what is inside would run it.
    if not Path(package).is_dir() and not Path(f"{package}.py").is_file() and importlib.util.find_spec(package) is None:
        raise UsageError(
            f"has no module {package} in {spec.cwd} or in {sys.executable}. Expected it on every host. Install it "
            "there, or name the directory that has it with --cwd DIR"
        )


def gpu_count() -> int:
    """Returns how many NVIDIA GPUs the host has, by their device files."""
    return sum(entry.name.removeprefix("nvidia").isdigit() for entry in _DEVICES.glob("nvidia[0-9]*"))


def check_slots(spec: HostSpec, gpus: int) -> None:
    """Raises `UsageError` where the host has GPUs, and fewer than a slot asks for; without any, slots do not count."""
    if spec.slots and gpus and max(spec.slots) >= gpus:
        raise UsageError(
            f"has {gpus} GPU(s). Expected slot {max(spec.slots)} to be one of them, from 0. Write slots={gpus} in the "
            "hostfile, or name others with --include"
        )


def take_ports(count: int, reservation: PortReservation) -> tuple[int, ...]:
    """Takes free ports of those that tfdist chooses from.

    Raises:
        ClusterError: There are not enough.
    """
    ports: list[int] = []
    for port in candidate_ports(random.randrange(1 << 30)):
        if len(ports) == count:
            return tuple(ports)
        with contextlib.suppress(PortTakenError):
            reservation.take(port)
            ports.append(port)
    raise ClusterError(f"has {len(ports)} free port(s) from 20000 to 31999. Expected {count}. End other jobs there")


def take_again(ports: tuple[int, ...], reservation: PortReservation) -> tuple[int, ...]:
    """Takes the ports that the workers of this host have had before.

    Raises:
        PortTakenError: Something has one of them: what ran there before may not have ended yet.
    """
    for port in ports:
        reservation.take(port)
    return ports


def steps_done(run_dir: str | None) -> int:
    """Steps of the run that its directory tells of; 0 where there is none, or none that can be read."""
    if run_dir is None:
        return 0
    with contextlib.suppress(RunDirError):
        return max((start.step for start in read_starts(RunDir(Path(run_dir)))), default=0)
    return 0


def reachable_address(reached: str | None, own: tuple[str, ...]) -> str | None:
    """The address by which other hosts reach this one: that of the ssh connection; None where it is of no use.

    Args:
        reached: Where ssh reached this host; None where that is not known.
        own: The addresses of its interfaces.
    """
    if reached is None or is_loopback(reached) or reached not in own:
        return None
    return reached


def find_facts(spec: HostSpec, reservation: PortReservation, reached: str | None) -> HostFacts:
    """Checks all of it.

    Raises:
        TfdistError: Something is in the way.
    """
    check_version(spec)
    enter_working_directory(spec)
    check_target(spec)
    gpus = gpu_count()
    check_slots(spec, gpus)
    ports = take_ports(spec.workers, reservation) if spec.ports is None else take_again(spec.ports, reservation)
    address = reachable_address(reached, own_addresses())
    done = steps_done(spec.run_dir)
    return HostFacts(socket.gethostname(), _boot_id(), address, ports, gpus, sys.executable, done)


def refusal(error: TfdistError) -> dict[str, object]:
    """Returns what a host answers where it cannot."""
    return {"what": str(error), "code": error.exit_code}


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
