"""Manifest of a training: the objects of each kind of job, as YAML that every parser reads alike.

An Indexed Job is in every cluster. A JobSet (https://jobset.sigs.k8s.io) restarts all of its pods together. A TrainJob
of Kubeflow Trainer (https://www.kubeflow.org/docs/components/trainer) has a runtime, which says how pods are started
and what their failures mean, and says itself what runs in them. That is a TrainingRuntime of the job's own namespace: a
ClusterTrainingRuntime can be made by administrators only.
"""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from tfdist.errors import DataError, UsageError
from tfdist.multihost.kubernetes.accepted_values import NAMING, Kind
from tfdist.multihost.kubernetes.manifest_options import ManifestOptions
from tfdist.multihost.kubernetes.pod_template import headless_service, metadata, network_policy, pod_spec, what_runs
from tfdist.versions import VERSION

WOULD_FAIL_AGAIN = sorted({UsageError.exit_code, DataError.exit_code})
ASKED_TO_STOP = 128 + signal.SIGTERM
_API = "trainer.kubeflow.org"
_VERSION = f"{_API}/v1alpha1"
FIRST_WORDS = "# Made by tfdist"
"""By which a manifest is known from other files."""
_PLAIN = re.compile(r"/?[A-Za-z][A-Za-z0-9._/-]*")
_OTHER_MEANING = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}


def pod_failure_policy(container: str) -> dict[str, Any]:
    """The `podFailurePolicy` of a Job. The first rule that fits a pod decides; where none does, its failure counts."""
    return {
        "rules": [
            # Preempted, drained or evicted: no fault of the job's.
            # The status is the default, which Kubernetes before 1.35 wants to be told.
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "FailJob", "onExitCodes": _codes(container, WOULD_FAIL_AGAIN)},
            # One pod was asked to stop, and with it all others stopped at the same step.
            {"action": "Ignore", "onExitCodes": _codes(container, [ASKED_TO_STOP])},
        ]
    }


def _codes(container: str, values: list[int]) -> dict[str, Any]:
    return {"containerName": container, "operator": "In", "values": values}


def jobset_failure_policy(max_restarts: int) -> dict[str, Any]:
    """The `failurePolicy` of a JobSet: all pods again, but for what would fail in the same way."""
    rule = {"name": "fails_the_same_way_again", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
    # Recreated only when all old pods are gone: they must not meet, nor write, beside new ones.
    return {"maxRestarts": max_restarts, "restartStrategy": "BlockingRecreate", "rules": [rule]}


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


_OBJECTS: Mapping[Kind, Callable[[ManifestOptions], list[dict[str, Any]]]] = {
    "job": indexed_job,
    "jobset": jobset,
    "trainjob": trainjob,
}


def objects(options: ManifestOptions) -> list[dict[str, Any]]:
    """The objects of a job, in the order in which they are to be made."""
    return _OBJECTS[options.kind](options)


def manifest_text(options: ManifestOptions, command: Sequence[str]) -> str:
    """The manifest of a job, with the command that makes it again in a comment.

    Args:
        command: What follows `tfdist manifest`.
    """
    lines = [
        f"{FIRST_WORDS} {VERSION}. Again:",
        f"#     tfdist manifest {_on_one_line(shlex.join(command))}",
        "# Start it with `kubectl apply -f FILE`; end it with `kubectl delete -f FILE`.",
    ]
    documents = yaml.dump_all(
        objects(options), Dumper=_Dumper, sort_keys=False, explicit_start=True, width=float("inf"), allow_unicode=True
    )
    return "\n".join(lines) + f"\n{documents}"


def _on_one_line(text: str) -> str:
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


class _Dumper(yaml.SafeDumper):
    """Quotes what only PyYAML takes for text: kubectl's parser reads 1e3 as a number and `y` as a truth value."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        return super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    is_plain = _PLAIN.fullmatch(text) and text.lower() not in _OTHER_MEANING
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain else '"')
_Dumper.add_representer(str, _text)
