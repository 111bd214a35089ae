"""A training as an Indexed Job, which every cluster of Kubernetes has."""

from __future__ import annotations

from typing import Any

from tfdist.multihost.kubernetes.failure_rules import pod_failure_policy
from tfdist.multihost.kubernetes.manifest_options import ManifestOptions
from tfdist.multihost.kubernetes.network_objects import headless_service, metadata, network_policy
from tfdist.multihost.kubernetes.pod_naming import NAMING
from tfdist.multihost.kubernetes.pod_template import pod_spec


def indexed_job(options: ManifestOptions) -> list[dict[str, Any]]:
    """The objects of the job, in the order in which they are to be made."""
    return [network_policy(options), headless_service(options), _job(options)]


def _job(options: ManifestOptions) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(options, own=True),
        "spec": {
            **indexed(options.workers),
            # One failure ends all pods: a common limit would count it for each of them.
            "backoffLimitPerIndex": options.max_restarts,
            "maxFailedIndexes": 0,
            # The new pod of an index comes when the old one is gone.
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": pod_failure_policy(NAMING[options.kind].container),
            "template": {"spec": pod_spec(options, subdomain=options.name)},
        },
    }


def indexed(workers: int) -> dict[str, Any]:
    """The fields of a Job's `spec` by which every pod has a number, and all run at once."""
    return {"completionMode": "Indexed", "completions": workers, "parallelism": workers}
