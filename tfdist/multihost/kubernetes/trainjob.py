"""A training as a TrainJob of Kubeflow Trainer (https://www.kubeflow.org/docs/components/trainer), with its runtime.

The runtime says how pods are started and what their failures mean, and the TrainJob what runs in them. It is a
TrainingRuntime of the job's own namespace: a ClusterTrainingRuntime can be made by administrators only.
"""

from __future__ import annotations

from typing import Any

from tfdist.multihost.kubernetes.jobset import jobset_spec, one_failure
from tfdist.multihost.kubernetes.manifest_options import ManifestOptions
from tfdist.multihost.kubernetes.network_objects import metadata, network_policy
from tfdist.multihost.kubernetes.pod_template import pod_spec, what_runs

_API = "trainer.kubeflow.org"
_VERSION = f"{_API}/v1alpha1"
MOST_PARTS = 128
"""Of a command, by the schema of a TrainJob."""


def trainjob(options: ManifestOptions) -> list[dict[str, Any]]:
    """The objects of the job, in the order in which they are to be made."""
    trainer = what_runs(options)
    trainer["resourcesPerNode"] = trainer.pop("resources", {})
    document = {
        "apiVersion": _VERSION,
        "kind": "TrainJob",
        "metadata": metadata(options, own=True),
        "spec": {
            "runtimeRef": {"apiGroup": _API, "kind": "TrainingRuntime", "name": options.name},
            "trainer": {"numNodes": options.workers, **{name: value for name, value in trainer.items() if value}},
        },
    }
    return [network_policy(options), _runtime(options), document]


def _runtime(options: ManifestOptions) -> dict[str, Any]:
    named = metadata(options)
    # By this label the trainer finds the pods of the TrainJob among those of the runtime.
    ancestor = {"labels": {f"{_API}/trainjob-ancestor-step": "trainer"}}
    pods = {"spec": pod_spec(options, with_what_runs=False)}
    job = {"metadata": ancestor, "spec": {"completionMode": "Indexed", **one_failure(options), "template": pods}}
    return {
        "apiVersion": _VERSION,
        "kind": "TrainingRuntime",
        "metadata": {**named, "labels": {**named["labels"], f"{_API}/framework": "tensorflow"}},
        "spec": {
            "mlPolicy": {"numNodes": options.workers},
            "template": {"spec": jobset_spec(options, {"name": "node", "replicas": 1, "template": job})},
        },
    }
