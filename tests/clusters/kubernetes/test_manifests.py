"""Every manifest is one that the schemas of Kubernetes, JobSet and Kubeflow Trainer take. No cluster is asked."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Iterator
from typing import Any, get_args

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from tests.clusters.kubernetes.api_schemas import CUSTOM, NEWEST, OLDEST, check
from tfdist.cli.main import main
from tfdist.cli.manifest import own_options
from tfdist.cluster.kubernetes import expand_workers
from tfdist.multihost.kubernetes.accepted_values import Kind

KINDS = get_args(Kind)
REQUIRED = ("--image=r.io/tfdist:1", "--run-dir-claim=runs")
CHANGES: dict[str, tuple[str, ...]] = {
    "name": ("--name=other",),
    "workers": ("--workers=1",),
    "gpus": ("--gpus=8",),
    "cpus": ("--cpus=500m",),
    "memory": ("--memory=1.5Ti",),
    "shm_size": ("--shm-size=512Mi",),
    "node_selector": ("--node-selector=example.com/pool=gpu", "--node-selector=zone="),
    "run_dir": ("--run-dir=/data/runs/a",),
    "mounts": ("--mount=data:/data", "--mount=runs:/earlier", "--mount=data:/more"),
    "resume": ("--resume=never",),
    "max_restarts": ("--max-restarts=0",),
    "grace": ("--grace=0.5",),
    "port": ("--port=65535",),
    "namespace": ("--namespace=team",),
    "labels": ("--label=kueue.x-k8s.io/queue-name=research",),
    "run_as": ("--run-as=0:5",),
    "service_account": ("--service-account=robot",),
    "image_pull_secrets": ("--image-pull-secret=a", "--image-pull-secret=b"),
    "env": ("--env=A=", "--env=B=1e3", "--env=C=y\n$(A)"),
    "env_secrets": ("--env-secret=D=creds:d.key", "--env-secret=MY_TOKEN=creds:e"),
    "token_secret": ("--token-secret=hush",),
    "metrics_port": ("--metrics-port=9400",),
}
"""A value of every option that changes a manifest, other than its default."""

ROWS = 18
"""So many combinations have every pair of options in every way, each with its default and with another value."""


def combinations() -> Iterator[frozenset[str]]:
    """Each option alone, all of them, and mixtures of them."""
    yield frozenset()
    yield frozenset(CHANGES)
    for name in CHANGES:
        yield frozenset({name})
    drawn = random.Random(7)
    for _ in range(ROWS):
        yield frozenset(name for name in CHANGES if drawn.random() < 0.5)


def documents(kind: str, changed: frozenset[str]) -> list[dict[str, Any]]:
    """The objects as kubectl would read them from the output of the command."""
    arguments = [argument for name in sorted(changed) for argument in CHANGES[name]]
    result = CliRunner().invoke(main, ["manifest", kind, *REQUIRED, *arguments, "digits.yaml"])
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


def test_the_combinations_have_every_pair_of_options() -> None:
    seen = {
        (first, second, first in chosen, second in chosen)
        for chosen in combinations()
        for first, second in itertools.combinations(CHANGES, 2)
    }
    assert len(seen) == 4 * len(list(itertools.combinations(CHANGES, 2)))


def test_every_option_is_among_them() -> None:
    options = {option.name for option in own_options(lambda: None).__click_params__}
    assert options - {"image", "run_dir_claim", "output"} == CHANGES.keys() - {"metrics_port"}


@pytest.mark.parametrize("kind", KINDS)
def test_pods_whose_run_directory_is_copied_need_no_claim(kind: str) -> None:
    arguments = ["manifest", kind, REQUIRED[0], "--mount=data:/data", "--copy-to=s3://lab/digits", "digits.yaml"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    found = list(yaml.safe_load_all(result.stdout))
    for document in found:
        check(document)
    assert "emptyDir: {}" in result.stdout and '"--copy-to=s3://lab/digits"' in result.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_every_combination_is_taken(kind: str) -> None:
    for changed in combinations():
        for document in documents(kind, changed):
            check(document)


@pytest.mark.parametrize("version", [OLDEST, "1.32", "1.33", "1.34", "1.35", "1.36", NEWEST])
def test_every_version_takes_the_job(version: str) -> None:
    for changed in (frozenset[str](), frozenset(CHANGES)):
        for document in documents("job", changed):
            check(document, version)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_field_is_refused_wherever_it_stands(kind: str) -> None:
    """The schemas would notice a name that is spelled wrong, or in the wrong place."""
    for document in documents(kind, frozenset(CHANGES)):
        check(document)
        places = list(objects_in(document))
        assert len(places) >= 4
        for path in places:
            changed = copy.deepcopy(document)
            at(changed, path)["surplus"] = "x"
            with pytest.raises(jsonschema.ValidationError):
                check(changed)


OPEN = {"labels", "matchLabels", "nodeSelector", "selector", "limits", "requests"}
"""Maps in which any name may stand."""


def objects_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of the objects with fields of their own."""
    if isinstance(value, dict):
        yield path
        for name in value.keys() - OPEN:
            yield from objects_in(value[name], (*path, name))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from objects_in(each, (*path, index))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


@pytest.mark.parametrize(
    ("kind", "path", "wrong"),
    [
        ("Job", ("spec", "completions"), "four"),
        ("Job", ("spec", "podFailurePolicy", "rules", 0, "onPodConditions"), "DisruptionTarget"),
        ("Job", ("spec", "template", "spec", "containers", 0, "env", 0, "value"), 1000.0),
        ("Service", ("spec", "ports", 0, "port"), None),
        ("NetworkPolicy", ("spec", "policyTypes"), "Ingress"),
        ("JobSet", ("spec", "failurePolicy", "rules", 0, "action"), "Fail"),
        ("JobSet", ("spec", "replicatedJobs", 0, "template", "spec", "backoffLimit"), "0"),
        ("TrainJob", ("spec", "trainer", "command"), "tfdist train"),
        ("TrainingRuntime", ("spec", "mlPolicy", "numNodes"), "4"),
    ],
)
def test_a_wrong_value_is_refused(kind: str, path: tuple[Any, ...], wrong: Any) -> None:
    all_documents = itertools.chain.from_iterable(documents(each, frozenset()) for each in KINDS)
    document = next(each for each in all_documents if each["kind"] == kind)
    check(document)
    at(document, path[:-1])[path[-1]] = wrong
    with pytest.raises(jsonschema.ValidationError):
        check(document)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pattern_lists_as_many_workers_as_there_are_pods(kind: str) -> None:
    """The schemas cannot know that."""
    *_, job = documents(kind, frozenset())
    spec = job["spec"]
    if kind == "trainjob":
        number, container = spec["trainer"]["numNodes"], spec["trainer"]
    else:
        spec = spec if kind == "job" else spec["replicatedJobs"][0]["template"]["spec"]
        assert spec["completions"] == spec["parallelism"]
        number, container = spec["completions"], spec["template"]["spec"]["containers"][0]
    [pattern] = [each["value"] for each in container["env"] if each["name"] == "TFDIST_WORKERS"]
    assert len(expand_workers(pattern)) == number == 2


def test_the_schemas_are_small() -> None:
    assert len(CUSTOM) == 3 and sum(file.stat().st_size for file in CUSTOM) < 1 << 20
