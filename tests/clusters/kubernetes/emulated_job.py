"""What Kubernetes does with the pods of a manifest, on hosts that are network namespaces: no Kubernetes is involved.

A pod is a process on a host of its own, with the host name and the variables that its manifest leads to, and with an
/etc/hosts that stands for the names of the cluster. The controller is the one of an Indexed Job: it starts the pods,
and decides by the manifest's policy what becomes of those that fail. A new pod has another address.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.processes import processes_with
from tests.helpers.waiting import until
from tfdist.cluster.kubernetes import expand_workers
from tfdist.verify.hosts.namespace_hosts import NamespaceHost

REPOSITORY = Path(__file__).resolve().parents[3]
SERVICE = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}

_ENTER = """
hostname "$1"
mount --bind "$2" /etc/hosts
mount --bind "$3" /etc/resolv.conf
shift 3
exec "$@"
"""


@dataclass(frozen=True)
class PodManifest:
    """What a manifest says of its pods, whatever its kind.

    Attributes:
        container: The container of a worker.
        job: The `spec` of the Job.
    """

    container: Mapping[str, Any]
    job: Mapping[str, Any]

    @classmethod
    def of(cls, documents: Sequence[Mapping[str, Any]]) -> PodManifest:
        """Puts together what the controllers would."""
        found = {document["kind"]: document["spec"] for document in documents}
        if "Job" in found:
            job = found["Job"]
        elif "JobSet" in found:
            job = found["JobSet"]["replicatedJobs"][0]["template"]["spec"]
        else:
            runtime = found["TrainingRuntime"]["template"]["spec"]
            number = found["TrainJob"]["trainer"]["numNodes"]
            job = {**runtime["replicatedJobs"][0]["template"]["spec"], "completions": number, "parallelism": number}
        container = job["template"]["spec"]["containers"][0]
        return cls({**container, **found.get("TrainJob", {}).get("trainer", {})}, job)

    def environ(self, index: int, secrets: Mapping[str, str]) -> dict[str, str]:
        """The variables of a pod. Those from a Secret are taken from `secrets` by its key."""
        found = {**SERVICE, "JOB_COMPLETION_INDEX": str(index)}
        for each in self.container["env"]:
            secret = each.get("valueFrom", {}).get("secretKeyRef")
            found[each["name"]] = each["value"].replace("$$", "$") if secret is None else secrets[secret["key"]]
        return found

    @property
    def command(self) -> list[str]:
        program, *arguments = (part.replace("$$", "$") for part in self.container["command"])
        assert program == "tfdist"
        return [sys.executable, "-m", "tfdist", *arguments]

    @property
    def host_names(self) -> list[str]:
        """Of the pods, with the Service's behind a dot."""
        [pattern] = [each["value"] for each in self.container["env"] if each["name"] == "TFDIST_WORKERS"]
        return [worker.host for worker in expand_workers(pattern).workers]

    def action(self, code: int) -> str:
        """What the policy does with a pod that ended with this code, and without a condition."""
        for rule in self.job["podFailurePolicy"]["rules"]:
            if code in rule.get("onExitCodes", {}).get("values", ()):
                return str(rule["action"])
        return "Count"


@dataclass
class Pod:
    """A pod that was started.

    Attributes:
        index: Its number.
        host: Where it runs.
        process: The process that is its first.
        log: The file with its output.
    """

    index: int
    host: NamespaceHost
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def code(self) -> int | None:
        """Its exit code as Kubernetes shows it; None while it runs."""
        code = self.process.poll()
        return code if code is None or code >= 0 else 128 - code


class EmulatedJob:
    """An Indexed Job.

    Args:
        manifest: What is to run. It may be replaced: pods that are started from then on are of the new one.
        hosts: As many as pods will be started.
        folder: For files; the working directory of the pods.
        secrets: The values of the Secret, by their keys. Pods that are started later have what is here then.
        stand_in: Whether stand-ins run in place of workers with TensorFlow.

    Attributes:
        pods: All that were started, in order.
        failures: How often a pod of an index has failed, as far as it counts.
        ignored: How often it has failed, and it did not count.
    """

    def __init__(
        self,
        manifest: PodManifest,
        hosts: Sequence[NamespaceHost],
        folder: Path,
        secrets: Mapping[str, str],
        *,
        stand_in: bool = True,
    ) -> None:
        self.manifest = manifest
        self.pods: list[Pod] = []
        self.failures: Counter[int] = Counter()
        self.ignored: Counter[int] = Counter()
        self._hosts = iter(hosts)
        self._folder = folder
        self.secrets = secrets
        self._mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self._stand_in = stand_in
        self._names = folder / "hosts"
        self._names.write_text("127.0.0.1 localhost\n")
        self._resolver = folder / "resolv.conf"
        # Nobody answers there, at once.
        self._resolver.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")

    def start(self, index: int) -> Pod:
        """Starts a pod on a host of its own; its name does not resolve yet."""
        number = len(self.pods)
        log = self._folder / f"pod-{number}.log"
        host, name = next(self._hosts), self.manifest.host_names[index].partition(".")[0]
        enter = ("unshare", "--mount", "--uts", "--", "sh", "-eu", "-c", _ENTER, "sh")
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*host.prefix, *enter, name, str(self._names), str(self._resolver), *self.manifest.command],
                cwd=self._folder,
                env={**self._base(), **self.manifest.environ(index, self.secrets)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.pods.append(Pod(index, host, process, log))
        return self.pods[-1]

    def start_all(self) -> list[Pod]:
        """Starts a pod of every index."""
        return [self.start(index) for index in range(self.manifest.job["completions"])]

    def publish(self, pods: Sequence[Pod] | None = None) -> None:
        """Lets names resolve: of some pods, or of the last ones of all indices."""
        chosen = {pod.index: pod for pod in (self.pods if pods is None else pods)}
        lines = [f"{pod.host.ipv4} {self.manifest.host_names[pod.index]}\n" for pod in chosen.values()]
        # In place: a mounted file is this one, and no other of its name.
        self._names.write_text("127.0.0.1 localhost\n" + "".join(lines))

    def control(self, timeout: float = 90) -> str:
        """Replaces pods that fail, as the policy says, until the Job is over.

        Returns:
            Complete, or why it failed: FailJob or MaxFailedIndexesExceeded.
        """
        deadline = time.monotonic() + timeout
        settled: set[int] = set()
        while True:
            current = {pod.index: (number, pod) for number, pod in enumerate(self.pods)}
            if all(pod.code == 0 for _, pod in current.values()):
                return "Complete"
            for number, pod in current.values():
                if number in settled or pod.code in (None, 0):
                    continue
                settled.add(number)
                verdict = self._settle(pod)
                if verdict is not None:
                    self.terminate()
                    return verdict
            assert time.monotonic() < deadline, [pod.said for pod in self.pods]
            time.sleep(0.02)

    def _settle(self, pod: Pod) -> str | None:
        """Starts another pod in place of one that has failed, or says why the Job fails."""
        assert pod.code is not None
        action = self.manifest.action(pod.code)
        if action == "FailJob":
            return action
        (self.ignored if action == "Ignore" else self.failures)[pod.index] += 1
        if self.failures[pod.index] > self.manifest.job["backoffLimitPerIndex"]:
            return "MaxFailedIndexesExceeded"
        self.start(pod.index)
        self.publish()
        return None

    def terminate(self) -> None:
        """Ends all pods as Kubernetes does, and waits until they are gone."""
        running = [pod for pod in self.pods if pod.code is None]
        for pod in running:
            pod.process.send_signal(signal.SIGTERM)
        grace = self.manifest.job["template"]["spec"]["terminationGracePeriodSeconds"]
        for pod in running:
            pod.process.wait(grace)

    def close(self) -> None:
        """Ends what a failed test has left, and fails where a pod has left a process."""
        for pod in self.pods:
            if pod.code is None:
                pod.process.kill()
                pod.process.wait(30)
        try:
            until(lambda: not self._left(), timeout=20, otherwise="pods have left processes")
        finally:
            for pid in self._left():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _left(self) -> list[int]:
        return processes_with(f"TFDIST_TEST_MARK={self._mark}")

    def _base(self) -> dict[str, str]:
        # The first folder has what makes `tfdist train` start stand-in workers.
        folders = [REPOSITORY / "tests/clusters/ssh/stand_in"] if self._stand_in else []
        path = ":".join(map(str, [*folders, REPOSITORY]))
        return {"PATH": os.environ["PATH"], "PYTHONPATH": path, "TFDIST_TEST_MARK": self._mark}
