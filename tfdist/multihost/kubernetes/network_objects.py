"""Names for the pods of a job, and who may reach their ports."""

from __future__ import annotations

from typing import Any

from tfdist.multihost.kubernetes.manifest_options import ManifestOptions
from tfdist.multihost.kubernetes.pod_naming import NAMING


def metadata(options: ManifestOptions, *, own: bool = False) -> dict[str, Any]:
    """Name, namespace and labels of an object of the job.

    Args:
        options: The job's.
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
