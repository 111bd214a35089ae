"""What is in the objects of each kind; that Kubernetes takes them is tested in tests/clusters/kubernetes."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tests.unit.multihost.kubernetes.test_manifest_options import options
from tfdist.multihost.kubernetes.accepted_values import Kind
from tfdist.multihost.kubernetes.manifest import objects
from tfdist.multihost.kubernetes.manifest_options import Mount, SecretVariable

KINDS = get_args(Kind)


def made(kind: str, **changed: Any) -> dict[str, dict[str, Any]]:
    """The objects of a job by their kinds."""
    return {each["kind"]: each for each in objects(options(kind=kind, **changed))}


def pods_of(kind: str, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The `spec` of its pods, with what a TrainJob says of them."""
    if kind == "job":
        return found["Job"]["spec"]["template"]["spec"]
    jobset = found["JobSet"]["spec"] if kind == "jobset" else found["TrainingRuntime"]["spec"]["template"]["spec"]
    spec = jobset["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    if kind == "trainjob":
        trainer = dict(found["TrainJob"]["spec"]["trainer"])
        assert trainer.pop("numNodes") > 0
        if "resourcesPerNode" in trainer:
            trainer["resources"] = trainer.pop("resourcesPerNode")
        assert not set(trainer) & set(spec["containers"][0])
        spec = {**spec, "containers": [{**spec["containers"][0], **trainer}]}
    return spec


@pytest.mark.parametrize(
    ("kind", "kinds"),
    [
        ("job", ["NetworkPolicy", "Service", "Job"]),
        ("jobset", ["NetworkPolicy", "JobSet"]),
        ("trainjob", ["NetworkPolicy", "TrainingRuntime", "TrainJob"]),
    ],
)
def test_the_order_in_which_they_are_made(kind: str, kinds: list[str]) -> None:
    """The ports are closed before there is a pod."""
    assert list(made(kind)) == kinds


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_pod_runs(kind: str) -> None:
    arguments = ("--set=a=$(X)$", "digits.yaml")
    pods = pods_of(kind, made(kind, arguments=arguments, resume="must", env=(("A", "$$"),)))
    [container] = pods["containers"]
    assert container["command"] == [
        *("tfdist", "train", "--run-dir=/runs/digits", "--resume=must", "--grace=30"),
        *("--set=a=$$(X)$$", "digits.yaml"),  # Kubernetes makes one $ of two, and leaves such brackets alone
    ]
    assert container["env"][-1] == {"name": "A", "value": "$$$$"}
    assert container["image"] == "r/tfdist:1" and "resources" not in container
    assert (pods["restartPolicy"], pods["terminationGracePeriodSeconds"]) == ("Never", 90)


@pytest.mark.parametrize("kind", KINDS)
def test_pods_without_rights(kind: str) -> None:
    """By the Pod Security Standard `restricted`."""
    pods = pods_of(kind, made(kind))
    assert pods["securityContext"]["runAsNonRoot"] and pods["securityContext"]["runAsUser"] == 10001
    assert pods["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pods["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pods["automountServiceAccountToken"] is False and "serviceAccountName" not in pods
    pods = pods_of(kind, made(kind, run_as=(0, 5), service_account="robot"))
    context = pods["securityContext"]
    assert [context[name] for name in ("runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup")] == [False, 0, 5, 5]
    assert pods["serviceAccountName"] == "robot" and "automountServiceAccountToken" not in pods


@pytest.mark.parametrize("kind", KINDS)
def test_resources(kind: str) -> None:
    [container] = pods_of(kind, made(kind, gpus=2, cpus="8", memory="32Gi"))["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "8", "memory": "32Gi"},
        "limits": {"memory": "32Gi", "nvidia.com/gpu": "2"},
    }


@pytest.mark.parametrize("kind", KINDS)
def test_volumes(kind: str) -> None:
    mounts = (Mount("data", "/data"), Mount("runs", "/earlier"), Mount("data", "/more"))
    pods = pods_of(kind, made(kind, mounts=mounts, shm_size="2Gi"))
    assert pods["volumes"] == [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}},
        {"name": "runs", "persistentVolumeClaim": {"claimName": "runs"}},
        {"name": "data-1", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    assert pods["containers"][0]["volumeMounts"] == [
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "runs", "mountPath": "/runs"},
        {"name": "data-1", "mountPath": "/data", "readOnly": True},
        {"name": "runs", "mountPath": "/earlier", "readOnly": True},
        {"name": "data-1", "mountPath": "/more", "readOnly": True},
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_token_comes_from_a_secret(kind: str) -> None:
    assert not [each for each in pods_of(kind, made(kind))["containers"][0]["env"] if each["name"] == "TFDIST_TOKEN"]
    [container] = pods_of(kind, made(kind, token_secret="hush"))["containers"]
    assert container["env"][1] == {
        "name": "TFDIST_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": "hush", "key": "token"}},
    }


@pytest.mark.parametrize("kind", KINDS)
def test_secret_variables_come_from_their_secrets(kind: str) -> None:
    given = (SecretVariable("AWS_SECRET_ACCESS_KEY", "digits-s3", "key"), SecretVariable("B", "other", "b"))
    [container] = pods_of(kind, made(kind, env_secrets=given))["containers"]
    assert container["env"][1:] == [
        {"name": "AWS_SECRET_ACCESS_KEY", "valueFrom": {"secretKeyRef": {"name": "digits-s3", "key": "key"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "other", "key": "b"}}},
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_jobs_own_pods_reach_its_ports(kind: str) -> None:
    label = "batch.kubernetes.io/job-name" if kind == "job" else "jobset.sigs.k8s.io/jobset-name"
    own = {"matchLabels": {label: "digits"}}
    spec = made(kind)["NetworkPolicy"]["spec"]
    assert spec == {"podSelector": own, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": own}]}]}
    found = made(kind, metrics_port=9400)
    assert found["NetworkPolicy"]["spec"]["ingress"][1] == {"ports": [{"port": 9400, "protocol": "TCP"}]}
    assert {"name": "metrics", "containerPort": 9400} in pods_of(kind, found)["containers"][0]["ports"]


def test_names_for_the_pods_of_a_job() -> None:
    """From before they are ready: none is, until all have met."""
    found = made("job", workers=4, port=21000)
    assert found["Service"]["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"batch.kubernetes.io/job-name": "digits"},
        "ports": [{"name": "tfdist", "port": 21000}],
    }
    pods = pods_of("job", found)
    assert pods["subdomain"] == found["Service"]["metadata"]["name"] == "digits"
    assert pods["containers"][0]["env"][0] == {"name": "TFDIST_WORKERS", "value": "digits-{0-3}.digits:21000"}
    spec = found["Job"]["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 4, 4)
    assert (spec["backoffLimitPerIndex"], spec["maxFailedIndexes"], spec["podReplacementPolicy"]) == (3, 0, "Failed")
    assert "backoffLimit" not in spec


@pytest.mark.parametrize(("kind", "pod"), [("jobset", "worker"), ("trainjob", "node")])
def test_a_set_restarts_all_pods_together(kind: str, pod: str) -> None:
    found = made(kind, workers=4, max_restarts=7)
    spec = found["JobSet"]["spec"] if kind == "jobset" else found["TrainingRuntime"]["spec"]["template"]["spec"]
    assert spec["network"] == {"enableDNSHostnames": True, "subdomain": "digits", "publishNotReadyAddresses": True}
    assert (spec["failurePolicy"]["maxRestarts"], spec["failurePolicy"]["restartStrategy"]) == (7, "BlockingRecreate")
    [job] = spec["replicatedJobs"]
    assert (job["name"], job["replicas"], job["template"]["spec"]["backoffLimit"]) == (pod, 1, 0)
    assert job["template"]["spec"]["podFailurePolicy"]["rules"][1]["onExitCodes"]["containerName"] == pod
    [container] = pods_of(kind, found)["containers"]
    assert container["name"] == pod
    assert container["env"][0]["value"] == f"digits-{pod}-0-{{0-3}}.digits:20000"


def test_names_of_rules_are_what_the_webhook_of_jobset_takes() -> None:
    """Which its schema does not say."""
    for rule in made("jobset")["JobSet"]["spec"]["failurePolicy"]["rules"]:
        assert rule["name"].replace("_", "").isalnum() and rule["name"][0].isalpha()


def test_a_trainjob_has_a_runtime_of_its_own() -> None:
    found = made("trainjob", workers=4, namespace="research")
    runtime = found["TrainingRuntime"]
    assert found["TrainJob"]["spec"]["runtimeRef"] == {
        "apiGroup": "trainer.kubeflow.org",
        "kind": "TrainingRuntime",
        "name": runtime["metadata"]["name"],
    }
    assert runtime["spec"]["mlPolicy"] == {"numNodes": 4} and found["TrainJob"]["spec"]["trainer"]["numNodes"] == 4
    [job] = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    assert job["template"]["metadata"]["labels"] == {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}


@pytest.mark.parametrize("kind", KINDS)
def test_labels_namespace_and_nodes(kind: str) -> None:
    queue = ("kueue.x-k8s.io/queue-name", "research")
    changed = {"labels": (queue,), "namespace": "team", "node_selector": (("pool", "gpu"),)}
    found = made(kind, image_pull_secrets=("a", "b"), **changed)
    assert {each["metadata"]["namespace"] for each in found.values()} == {"team"}
    with_queue = [each["kind"] for each in found.values() if queue[0] in each["metadata"]["labels"]]
    assert with_queue == [{"job": "Job", "jobset": "JobSet", "trainjob": "TrainJob"}[kind]]
    assert all("namespace" not in each["metadata"] for each in made(kind).values())
    pods = pods_of(kind, found)
    assert pods["nodeSelector"] == {"pool": "gpu"} and pods["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]
