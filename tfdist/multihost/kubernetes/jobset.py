"""A training as a JobSet (https://jobset.sigs.k8s.io), which restarts all of its pods together."""

from __future__ import annotations

from typing import Any

from tfdist.multihost.kubernetes.failure_rules import jobset_failure_policy, pod_failure_policy
from tfdist.multihost.kubernetes.indexed_job import indexed
from tfdist.multihost.kubernetes.manifest_options import ManifestOptions
from tfdist.multihost.kubernetes.network_objects import metadata, network_policy
from tfdist.multihost.kubernetes.pod_naming import NAMING
from tfdist.multihost.kubernetes.pod_template import pod_spec


def jobset(options: ManifestOptions) -> list[dict[str, Any]]:
    """The objects of the job, in the order in which they are to be made."""
    job = {"spec": {**indexed(options.workers), **one_failure(options), "template": {"spec": pod_spec(options)}}}
    document = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata(options, own=True),
        "spec": jobset_spec(options, {"name": "worker", "replicas": 1, "template": job}),
    }
    return [network_policy(options), document]


def jobset_spec(options: ManifestOptions, replicated_job: dict[str, Any]) -> dict[str, Any]:
    """The `spec` of a JobSet; it makes the headless Service itself."""
    return {
        "network": {"enableDNSHostnames": True, "subdomain": options.name, "publishNotReadyAddresses": True},
        "failurePolicy": jobset_failure_policy(options.max_restarts),
        "replicatedJobs": [replicated_job],
    }


def one_failure(options: ManifestOptions) -> dict[str, Any]:
    """The fields of the `spec` of its Job by which a failure ends that at once, for the JobSet to decide."""
    return {
        "backoffLimit": 0,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": pod_failure_policy(NAMING[options.kind].container),
    }
