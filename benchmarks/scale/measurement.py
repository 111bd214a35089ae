"""Measures a job of so many launchers: forms it, lets it train, kills a worker, and waits until all have ended."""

from __future__ import annotations

import contextlib
import dataclasses
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.scale.job_process import Cost, JobProcess, ScaleError
from benchmarks.scale.scale_job import ScaleJob
from tfdist.verify.hosts.namespace_hosts import NamespaceHost, namespace_hosts

_SETTLING_SECONDS = 3.0
_ENDING_SECONDS = 120.0
_READY_SECONDS = 120.0
_STATUS_SECONDS = 120.0


@dataclass(frozen=True)
class Measured:
    """What a job of so many launchers took.

    Attributes:
        launchers: How many there were.
        form_seconds: From when all were told to begin until the last one had met the others.
        form_cpu_seconds: Processor time of the chief's launcher until then.
        form_cpu_seconds_of_all: That of all launchers together.
        form_received, form_sent: Messages of the chief's launcher until then.
        form_messages_of_other: Those to and from the last worker's launcher.
        form_bytes_of_other: What that sent.
        train_share: Of one core, what the chief's launcher took while all trained.
        train_share_of_other: That of the last worker's launcher.
        train_received: Messages a second that came to the chief's launcher meanwhile.
        peak_bytes: Memory of the chief's launcher, at most.
        peak_bytes_of_other: That of the last worker's launcher.
        descriptors: What the chief's launcher had open.
        status_seconds: Processor time of `tfdist status` on the chief's run directory.
        end_seconds: From when a worker's death was seen until the last launcher had ended.
        end_cpu_seconds: Processor time that the chief's launcher took for it.
    """

    launchers: int
    form_seconds: float
    form_cpu_seconds: float
    form_cpu_seconds_of_all: float
    form_received: int
    form_sent: int
    form_messages_of_other: int
    form_bytes_of_other: int
    train_share: float
    train_share_of_other: float
    train_received: float
    peak_bytes: int
    peak_bytes_of_other: int
    descriptors: int
    status_seconds: float
    end_seconds: float
    end_cpu_seconds: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return dataclasses.asdict(self)


def measure(launchers: int, hosts: int, seconds: float, timeout: float, folder: Path) -> Measured:
    """Runs one job.

    Args:
        launchers: How many.
        hosts: Network namespaces.
        seconds: How long it is watched while it trains.
        timeout: Seconds in which it must form.
        folder: Empty; what the job writes.

    Raises:
        ScaleError: It did not form, or did not end as it should.
        NamespacesUnavailableError: There are no hosts.
    """
    with namespace_hosts(hosts) as places, contextlib.ExitStack() as stack:
        job = ScaleJob(tuple(place.ipv4 for place in places), launchers, timeout)
        job.write(folder)
        chief, other = (_launcher(stack, places, job, folder, index) for index in (0, launchers - 1))
        others = [_threads(stack, place, host, folder) for host, place in enumerate(places)]
        return _Run(job, folder, chief, other, others).measure(seconds)


def _launcher(
    stack: contextlib.ExitStack, places: Sequence[NamespaceHost], job: ScaleJob, folder: Path, index: int
) -> JobProcess:
    place, log = places[job.host_of(index)], folder / f"launcher-{index}.log"
    arguments = [str(folder), str(index)]
    process = JobProcess(place.prefix, "benchmarks.scale.launcher_process", arguments, log)
    stack.callback(process.close)
    return process


def _threads(stack: contextlib.ExitStack, place: NamespaceHost, host: int, folder: Path) -> JobProcess:
    log = folder / f"followers-{host}.log"
    process = JobProcess(place.prefix, "benchmarks.scale.follower_process", [str(folder), str(host)], log)
    stack.callback(process.close)
    return process


class _Run:
    def __init__(
        self, job: ScaleJob, folder: Path, chief: JobProcess, other: JobProcess, others: Sequence[JobProcess]
    ) -> None:
        self._job = job
        self._folder = folder
        self._chief = chief
        self._other = other
        self._others = others
        self._all = [chief, other, *others]

    def measure(self, seconds: float) -> Measured:
        ready = time.monotonic() + _READY_SECONDS
        for process in self._all:
            process.said("ready", ready)
        before = [process.cost() for process in self._all]
        begun = time.monotonic()
        for process in self._all:
            process.tell()
        formed_at = max(process.said("formed", begun + self._job.timeout + 10)["formed"] for process in self._others)
        formed = [process.cost() for process in self._all]
        time.sleep(_SETTLING_SECONDS)
        trained = self._watch(seconds)
        status = self._status_seconds()
        at_last, ended_at, killed_at = self._kill()
        said = [process.said("ended", time.monotonic() + _ENDING_SECONDS) for process in (self._chief, self._other)]
        span = (begun, formed_at)
        (chief_cost, later), (other_cost, other_later) = trained
        window = (chief_cost.at, later.at)
        return Measured(
            launchers=self._job.launchers,
            form_seconds=formed_at - begun,
            form_cpu_seconds=formed[0].seconds - before[0].seconds,
            form_cpu_seconds_of_all=sum(b.seconds - a.seconds for a, b in zip(before, formed, strict=True)),
            form_received=_count(said[0], "received", *span),
            form_sent=_count(said[0], "sent", *span),
            form_messages_of_other=_count(said[1], "received", *span) + _count(said[1], "sent", *span),
            form_bytes_of_other=_count(said[1], "sent_bytes", *span),
            train_share=_share(chief_cost, later),
            train_share_of_other=_share(other_cost, other_later),
            train_received=_count(said[0], "received", *window) / (later.at - chief_cost.at),
            peak_bytes=later.peak_bytes,
            peak_bytes_of_other=other_later.peak_bytes,
            descriptors=later.descriptors,
            status_seconds=status,
            end_seconds=ended_at - killed_at,
            end_cpu_seconds=at_last,
        )

    def _watch(self, seconds: float) -> list[tuple[Cost, Cost]]:
        """What the two real launchers used before and after a time of training."""
        before = [process.cost() for process in (self._chief, self._other)]
        time.sleep(seconds)
        return list(zip(before, (process.cost() for process in (self._chief, self._other)), strict=True))

    def _status_seconds(self) -> float:
        """Processor time of a look at the run, of which the chief's directory has the states of all workers."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "tfdist", "status", "--json", str(self._folder / "run-0")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_STATUS_SECONDS)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise ScaleError(f"tfdist status ended with {done.returncode}: {done.stderr[-500:]}")
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def _kill(self) -> tuple[float, float, float]:
        """Kills a worker; returns the chief's processor time for it, when the last had ended, and when it was seen."""
        victim = self._job.launchers // 2
        before = self._chief.cost()
        self._others[self._job.host_of(victim)].tell(str(victim))
        for process in self._all:
            process.tell_no_more()
        deadline = time.monotonic() + _ENDING_SECONDS
        ended = [process.said("ended", deadline) for process in self._all]
        wrong = [said for said in ended if said.get("errors") or said.get("code", 4) != 4]
        wrong += [said for said in ended if said.get("codes", ["4"]) not in (["4"], [])]
        if wrong:
            raise ScaleError(f"launchers ended otherwise than with 4, a worker failed: {wrong[0]}")
        killed = [at for said in ended for at in said.get("killed", ())]
        return ended[0]["cpu_seconds"] - before.seconds, max(said["ended"] for said in ended), killed[0]


def _share(before: Cost, after: Cost) -> float:
    return (after.seconds - before.seconds) / (after.at - before.at)


def _count(said: dict[str, Any], name: str, begun: float, ended: float) -> int:
    """Messages, or bytes, in the seconds from one moment to another."""
    seconds = range(int(begun), int(ended) + 1)
    return sum(count for second, count in said["messages"][name].items() if int(second) in seconds)
