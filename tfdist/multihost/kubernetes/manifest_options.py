"""The options of a job in Kubernetes, as `tfdist manifest` was asked for it."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from pathlib import PurePosixPath

from tfdist.cluster.kubernetes import INDEX, MOST_WORKERS, WORKERS
from tfdist.errors import UsageError
from tfdist.multihost.kubernetes import accepted_values as accepted
from tfdist.multihost.kubernetes.accepted_values import Kind, check_lengths
from tfdist.net.shared_token import VARIABLE as TOKEN
from tfdist.url_schemes import CHECKPOINTS_INSTEAD, fault_as_local

MARGIN_SECONDS = 60
"""Seconds for launchers to end workers that have not stopped in time, and to report, before Kubernetes kills them."""

_RESERVED = {
    WORKERS: "the manifest lists the pods itself",
    INDEX: "Kubernetes sets it",
    "TF_CONFIG": "tfdist would take the cluster from it; the manifest lists the pods itself",
    TOKEN: "everybody who may read a manifest would know it. Make a Secret and give --token-secret NAME",
}


@dataclass(frozen=True)
class Mount:
    """A claim that the pods read data from.

    Attributes:
        claim: The PersistentVolumeClaim.
        path: Where the pods see it.
    """

    claim: str
    path: str

    def __post_init__(self) -> None:
        accepted.check_object_name("--mount", self.claim)
        accepted.check_absolute("--mount", self.path)


@dataclass(frozen=True)
class SecretVariable:
    """A variable of the pods whose value is in a Secret."""

    name: str
    secret: str
    key: str

    def __post_init__(self) -> None:
        accepted.check_object_name("--env-secret", self.secret)
        accepted.check_secret_key("--env-secret", self.key)


@dataclass(frozen=True)
class ManifestOptions:
    """One job.

    Attributes:
        kind: What it is in Kubernetes.
        name: Its name, and that of all its objects.
        image: An image with tfdist.
        arguments: What follows `tfdist train` and the options that are fields here: others, the target, its arguments.
        run_dir: Where the run writes, in the pods.
        workers: Pods, each of which is one worker.
        gpus: NVIDIA GPUs of each; 0 for none.
        cpus, memory: Quantities of each; None for what Kubernetes gives.
        port: On which the workers talk.
        run_dir_claim: The PersistentVolumeClaim that is mounted at the folder of `run_dir`; None where the pods keep
            the directory for themselves, and its copy is in a bucket.
        mounts: Claims with data, which are mounted read-only.
        token_secret: A Secret with the key `token`; None to trust the network.
        namespace: None for the one that `kubectl` works in.
        env: Name and value of variables for all workers.
        env_secrets: Variables for all workers whose values are secret.
        shm_size: Memory that the processes of a pod may share.
        resume: What `--resume` of `tfdist train` takes.
        grace: Seconds that the workers have to stop at a step.
        max_restarts: Starts after failures of the job's own, in all.
        run_as: User and group by their numbers.
        service_account: None for none: the pods then get no credentials of the cluster.
        image_pull_secrets: Secrets with credentials of the image's registry.
        node_selector: Labels of the nodes to run on.
        labels: Labels of the job, besides.
        metrics_port: Where metrics are served; None for nowhere.

    Raises:
        UsageError: A value is not one that its option takes.
    """

    kind: Kind
    name: str
    image: str
    arguments: tuple[str, ...]
    run_dir: str
    workers: int = 2
    gpus: int = 0
    cpus: str | None = None
    memory: str | None = None
    port: int = 20000
    run_dir_claim: str | None = None
    mounts: tuple[Mount, ...] = ()
    token_secret: str | None = None
    namespace: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    env_secrets: tuple[SecretVariable, ...] = ()
    shm_size: str = "1Gi"
    resume: str = "auto"
    grace: float = 30.0
    max_restarts: int = 3
    run_as: tuple[int, int] = (10001, 10001)
    service_account: str | None = None
    image_pull_secrets: tuple[str, ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    metrics_port: int | None = None

    def __post_init__(self) -> None:
        accepted.check_dns_label("--name", self.name)
        if not 1 <= self.workers <= MOST_WORKERS:
            raise UsageError(f"--workers takes 1 to {MOST_WORKERS} pods. Received: --workers {self.workers}")
        check_lengths(self.kind, self.name, self.workers)
        self._check_run_dir()
        self._check_mounts()
        self._check_names()
        self._check_variables()
        accepted.check_text([*self.arguments, self.run_dir, *(value for _, value in self.env)])
        if self.metrics_port == self.port:
            raise UsageError(f"--metrics-port and --port must differ. Received: {self.port} for both")

    @property
    def termination_seconds(self) -> int:
        """Seconds that Kubernetes waits between SIGTERM and SIGKILL: longer than tfdist does."""
        return math.ceil(self.grace) + MARGIN_SECONDS

    @property
    def runs_path(self) -> str:
        """The path at which the claim of the run directory is mounted: the folder that the directory is made in."""
        return str(PurePosixPath(self.run_dir).parent)

    @property
    def _train_options(self) -> list[str]:
        """Those of `arguments` that are before the target, whose own arguments may be anything."""
        return list(itertools.takewhile(lambda argument: argument.startswith("--"), self.arguments))

    def _check_run_dir(self) -> None:
        fault = fault_as_local(self.run_dir, "--run-dir", CHECKPOINTS_INSTEAD)
        if fault is not None:
            raise UsageError(fault)
        accepted.check_absolute("--run-dir", self.run_dir)
        if self.runs_path == "/":
            raise UsageError(
                "--run-dir lies in the folder where the claim is mounted. Expected two folders at least, such as "
                f"/runs/{self.name}. Received: --run-dir {self.run_dir}"
            )
        if self.run_dir_claim is not None:
            accepted.check_object_name("--run-dir-claim", self.run_dir_claim)
        elif not any(argument.startswith("--copy-to=") for argument in self._train_options):
            raise UsageError(
                "The run directory would be lost with its pod: model, checkpoints and logs. Expected --run-dir-claim "
                "CLAIM, a PersistentVolumeClaim that all pods can mount at once (ReadWriteMany), or --copy-to "
                "s3://BUCKET/RUN, where another pod finds it again. Received: neither"
            )

    def _check_mounts(self) -> None:
        paths = [*(mount.path for mount in self.mounts), self.runs_path, "/dev/shm"]
        twice = sorted({path for path in paths if paths.count(path) > 1})
        if twice:
            raise UsageError(
                "Two volumes cannot be mounted at one place. Expected --mount CLAIM:PATH with a path of its own, "
                f"other than that of the run directory and /dev/shm. Received: {twice[0]} twice"
            )

    def _check_variables(self) -> None:
        shown, secret = [name for name, _ in self.env], [each.name for each in self.env_secrets]
        accepted.check_variables("--env-secret", secret, reserved=_RESERVED)
        accepted.check_variables("--env", [*shown, *secret], reserved=_RESERVED)
        accepted.check_no_secret(shown)

    def _check_names(self) -> None:
        accepted.check_image(self.image)
        named = {"--namespace": self.namespace, "--service-account": self.service_account}
        named["--token-secret"] = self.token_secret
        pull = [("--image-pull-secret", name) for name in self.image_pull_secrets]
        for option, name in [*named.items(), *pull]:
            if name is not None:
                accepted.check_object_name(option, name)
        for option, text, example in (("--cpus", self.cpus, "8 or 500m"), ("--memory", self.memory, "32Gi")):
            if text is not None:
                accepted.check_quantity(option, text, example)
        accepted.check_quantity("--shm-size", self.shm_size, "1Gi")
        for option, pairs in (("--node-selector", self.node_selector), ("--label", self.labels)):
            for key, value in pairs:
                accepted.check_label(option, key, value)
