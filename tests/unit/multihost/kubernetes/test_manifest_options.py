from __future__ import annotations

from typing import Any

import pytest

from tfdist.errors import UsageError
from tfdist.multihost.kubernetes.manifest_options import ManifestOptions, Mount, SecretVariable


def options(**changed: Any) -> ManifestOptions:
    given: dict[str, Any] = {
        "kind": "job",
        "name": "digits",
        "image": "r/tfdist:1",
        "arguments": ("digits.yaml",),
        "run_dir": "/runs/digits",
        "run_dir_claim": "runs",
    }
    return ManifestOptions(**{**given, **changed})


def test_defaults() -> None:
    made = options()
    assert (made.workers, made.gpus, made.port, made.resume, made.max_restarts) == (2, 0, 20000, "auto", 3)
    assert (made.runs_path, made.termination_seconds) == ("/runs", 90)
    assert options(run_dir="/a/b/c", grace=0.5).runs_path == "/a/b"
    assert options(grace=0.5).termination_seconds == 61


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"name": "Digits"}, "--name becomes part of host names"),
        ({"name": "a" * 62}, "--name of 61 characters at most"),
        ({"kind": "jobset", "name": "a" * 47}, "--name of 46 characters at most"),
        ({"workers": 0}, "--workers takes 1 to 65536 pods. Received: --workers 0"),
        ({"workers": 65537}, "--workers takes 1 to 65536 pods"),
        ({"image": "a b"}, "--image takes the name of an image"),
        ({"run_dir": "runs/a"}, "--run-dir takes a folder of the pods"),
        ({"run_dir": "/runs"}, "Expected two folders at least, such as /runs/digits"),
        ({"run_dir": "s3://bucket/run"}, "--run-dir is a URL"),
        ({"run_dir_claim": None}, "Expected --run-dir-claim CLAIM"),
        ({"run_dir_claim": None, "arguments": ("train.py", "--copy-to=s3://b/r")}, "Expected --run-dir-claim CLAIM"),
        ({"run_dir_claim": "Runs"}, "--run-dir-claim takes the name of an object"),
        ({"mounts": (Mount("data", "/runs"),)}, "Received: /runs twice"),
        ({"mounts": (Mount("data", "/dev/shm"),)}, "Received: /dev/shm twice"),
        ({"mounts": (Mount("a", "/data"), Mount("b", "/data"))}, "Received: /data twice"),
        ({"cpus": "eight"}, "--cpus takes a quantity"),
        ({"memory": "32GB"}, "--memory takes a quantity"),
        ({"shm_size": ""}, "--shm-size takes a quantity"),
        ({"namespace": "A"}, "--namespace takes"),
        ({"token_secret": ""}, "--token-secret takes"),
        ({"service_account": "a_b"}, "--service-account takes"),
        ({"image_pull_secrets": ("a", "B")}, "--image-pull-secret takes"),
        ({"node_selector": (("pool", "a b"),)}, "--node-selector takes a label"),
        ({"labels": (("a b", ""),)}, "--label takes a label"),
        ({"env": (("A-B", "1"),)}, "--env takes the name of a variable"),
        ({"env": (("A", "1"), ("A", "2"))}, "A twice"),
        ({"env": (("TFDIST_WORKERS", "a:1"),)}, "the manifest lists the pods itself"),
        ({"env": (("TF_CONFIG", "{}"),)}, "the manifest lists the pods itself"),
        ({"env": (("JOB_COMPLETION_INDEX", "0"),)}, "Kubernetes sets it"),
        ({"env": (("TFDIST_TOKEN", "hush"),)}, "give --token-secret NAME"),
        ({"env": (("AWS_SECRET_ACCESS_KEY", "hush"),)}, "Expected --env-secret AWS_SECRET_ACCESS_KEY=SECRET:KEY"),
        ({"env": (("AWS_ACCESS_KEY_ID", "hush"),)}, "--env-secret AWS_ACCESS_KEY_ID=SECRET:KEY"),
        ({"env": (("HF_TOKEN", "hush"),)}, "--env-secret HF_TOKEN=SECRET:KEY"),
        ({"env": (("pgpassword", "hush"),)}, "--env-secret pgpassword=SECRET:KEY"),
        ({"env_secrets": (SecretVariable("A-B", "s", "k"),)}, "--env-secret takes the name of a variable"),
        ({"env_secrets": (SecretVariable("TF_CONFIG", "s", "k"),)}, "--env-secret cannot set TF_CONFIG"),
        ({"env": (("A", "1"),), "env_secrets": (SecretVariable("A", "s", "k"),)}, "A twice"),
        ({"env": (("A", "\udcff"),)}, "bytes that are not"),
        ({"arguments": ("a.py", "\udcff")}, "bytes that are not"),
        ({"metrics_port": 20000}, "must differ. Received: 20000 for both"),
    ],
)
def test_what_is_refused(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as raised:
        options(**changed)
    assert says in str(raised.value) and "hush" not in str(raised.value)


@pytest.mark.parametrize(("claim", "path"), [("", "/data"), ("data", "data"), ("data", "/"), ("Data", "/data")])
def test_a_mount_that_is_refused(claim: str, path: str) -> None:
    with pytest.raises(UsageError, match="--mount takes"):
        Mount(claim, path)


@pytest.mark.parametrize(("secret", "key"), [("", "k"), ("S", "k"), ("s", ""), ("s", "a/b")])
def test_a_secret_variable_that_is_refused(secret: str, key: str) -> None:
    with pytest.raises(UsageError, match="--env-secret takes"):
        SecretVariable("A", secret, key)


def test_a_name_that_only_sounds_secret_is_taken() -> None:
    assert options(env=(("TOKENIZERS_PARALLELISM", "false"),)).env
