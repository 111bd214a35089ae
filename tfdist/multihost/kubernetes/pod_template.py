"""The pods of a job, the same whatever that is in Kubernetes, with names for them, and who may reach their ports."""

from __future__ import annotations

from typing import Any

from tfdist.cluster.kubernetes import WORKERS
from tfdist.multihost.kubernetes.accepted_values import NAMING, worker_pattern
from tfdist.multihost.kubernetes.manifest_options import ManifestOptions
from tfdist.net.shared_token import VARIABLE as TOKEN

TOKEN_KEY = "token"
"""Of the Secret."""


def what_runs(options: ManifestOptions) -> dict[str, Any]:
    """Image, command, variables and resources of the container: what a TrainJob says itself, and not its runtime."""
    own = [f"--run-dir={options.run_dir}", f"--resume={options.resume}", f"--grace={options.grace:g}"]
    command = ["tfdist", "train", *own, *options.arguments]
    found: dict[str, Any] = {"image": options.image, "command": [literal(part) for part in command]}
    found["env"] = _variables(options)
    resources = pod_resources(options)
    return found | ({"resources": resources} if resources else {})


def pod_resources(options: ManifestOptions) -> dict[str, Any]:
    """Requests and limits of a pod; empty where nothing was asked for.

    Processors are asked for and not limited: a pod that may use idle ones is not slowed down, and its threads are as
    many as the node has cores.
    """
    requests = {"cpu": options.cpus, "memory": options.memory}
    limits = {"memory": options.memory, "nvidia.com/gpu": str(options.gpus) if options.gpus else None}
    both = {"requests": requests, "limits": limits}
    given = {part: {name: text for name, text in each.items() if text is not None} for part, each in both.items()}
    return {part: each for part, each in given.items() if each}


def container(options: ManifestOptions, *, with_what_runs: bool = True) -> dict[str, Any]:
    """The container of a worker."""
    ports = [{"name": "tfdist", "containerPort": options.port}]
    if options.metrics_port is not None:
        ports.append({"name": "metrics", "containerPort": options.metrics_port})
    return {
        "name": NAMING[options.kind].container,
        **(what_runs(options) if with_what_runs else {}),
        "ports": ports,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [mount for _, mount in _volumes(options)],
    }


def pod_spec(options: ManifestOptions, *, with_what_runs: bool = True, **more: Any) -> dict[str, Any]:
    """The `spec` of the pods.

    Args:
        with_what_runs: Whether the container has `what_runs`.
        **more: Fields of one kind.
    """
    user, group = options.run_as
    spec: dict[str, Any] = {
        **more,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": options.termination_seconds,
        # What a killed process leaves behind is ended by the pod's first process, which is then Kubernetes' own.
        "shareProcessNamespace": True,
        # No variables of other Services: one that is called tfdist-token would set TFDIST_TOKEN_PORT.
        "enableServiceLinks": False,
        **_account(options),
        "securityContext": {
            "runAsNonRoot": user != 0,
            "runAsUser": user,
            "runAsGroup": group,
            "fsGroup": group,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if options.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in options.image_pull_secrets]
    if options.node_selector:
        spec["nodeSelector"] = dict(options.node_selector)
    spec["containers"] = [container(options, with_what_runs=with_what_runs)]
    spec["volumes"] = list({volume["name"]: volume for volume, _ in _volumes(options)}.values())
    return spec


def literal(text: str) -> str:
    """Text of a command or of a variable that Kubernetes leaves as it is: there $(NAME) is replaced, and $$ is $."""
    return text.replace("$", "$$")


def _account(options: ManifestOptions) -> dict[str, Any]:
    if options.service_account is None:
        return {"automountServiceAccountToken": False}
    return {"serviceAccountName": options.service_account}


def _variables(options: ManifestOptions) -> list[dict[str, Any]]:
    pattern = worker_pattern(options.kind, options.name, options.workers, options.port)
    variables: list[dict[str, Any]] = [{"name": WORKERS, "value": pattern}]
    if options.token_secret is not None:
        variables.append(_from_secret(TOKEN, options.token_secret, TOKEN_KEY))
    variables += [_from_secret(each.name, each.secret, each.key) for each in options.env_secrets]
    return variables + [{"name": name, "value": literal(value)} for name, value in options.env]


def _from_secret(name: str, secret: str, key: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def _volumes(options: ManifestOptions) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each volume with its mount; a claim that is mounted in several places is one volume."""
    shared = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": options.shm_size}}
    found = [(shared, {"name": "shm", "mountPath": "/dev/shm"})]
    claims: dict[str, str] = {}
    if options.run_dir_claim is None:
        found.append(({"name": "runs", "emptyDir": {}}, {"name": "runs", "mountPath": options.runs_path}))
    else:
        found.append(_claim(options.run_dir_claim, "runs", options.runs_path))
        claims[options.run_dir_claim] = "runs"
    for mount in options.mounts:
        name = claims.setdefault(mount.claim, f"data-{len(claims)}")
        found.append(_claim(mount.claim, name, mount.path, readOnly=True))
    return found


def _claim(claim: str, name: str, path: str, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    volume = {"name": name, "persistentVolumeClaim": {"claimName": claim}}
    return volume, {"name": name, "mountPath": path, **more}


def metadata(options: ManifestOptions, *, own: bool = False) -> dict[str, Any]:
    """Name, namespace and labels of an object of the job.

    Args:
        own: Whether it is the job itself, which has the labels that were asked for.
    """
    labels = {"app.kubernetes.io/name": "tfdist", "app.kubernetes.io/instance": options.name}
    named = {"name": options.name}
    if options.namespace is not None:
        named["namespace"] = options.namespace
    return {**named, "labels": {**labels, **(dict(options.labels) if own else {})}}


def own_pods(options: ManifestOptions) -> dict[str, Any]:
    """The selector of the job's pods."""
    return {"matchLabels": {NAMING[options.kind].label: options.name}}


def headless_service(options: ManifestOptions) -> dict[str, Any]:
    """Gives every pod of the job a name, from before it is ready: workers meet before anything is."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(options),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": own_pods(options)["matchLabels"],
            "ports": [{"name": "tfdist", "port": options.port}],
        },
    }


def network_policy(options: ManifestOptions) -> dict[str, Any]:
    """Lets only the job's own pods reach its pods: TensorFlow's ports ask nobody who he is.

    All ports are open among them, as NCCL chooses its own.
    """
    ingress: list[dict[str, Any]] = [{"from": [{"podSelector": own_pods(options)}]}]
    if options.metrics_port is not None:
        ingress.append({"ports": [{"port": options.metrics_port, "protocol": "TCP"}]})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(options),
        "spec": {"podSelector": own_pods(options), "policyTypes": ["Ingress"], "ingress": ingress},
    }
