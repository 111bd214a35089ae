"""Pods as their manifests make them, emulated: they meet, fail, and are replaced by the manifest's own policy."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.clusters.kubernetes.conftest import MakeJob, MakeManifest
from tests.clusters.kubernetes.emulated_job import EmulatedJob
from tests.helpers.waiting import until

UNRESOLVED = "its name does not resolve"


def logs(job: EmulatedJob) -> list[str]:
    return [pod.said for pod in job.pods]


@pytest.mark.parametrize("kind", ["job", "jobset", "trainjob"])
def test_names_that_do_not_resolve_yet_are_waited_for(
    kind: str, pod_manifest: MakeManifest, emulated_job: MakeJob
) -> None:
    """They begin to one after another, and a pod starts later than the others."""
    job = emulated_job(pod_manifest("*:listen", kind=kind))
    first, second = job.start(0), job.start(1)
    until(lambda: UNRESOLVED in first.said and UNRESOLVED in second.said)
    job.publish([first])
    third = job.start(2)
    job.publish([first, third])
    until(lambda: UNRESOLVED in third.said)
    job.publish()
    assert job.control() == "Complete", logs(job)
    assert not job.failures
    middle = "-" if kind == "job" else "-node-0-" if kind == "trainjob" else "-worker-0-"
    assert f"listening on digits{middle}0.digits:20000" in first.said


def test_a_name_that_never_resolves_is_named(pod_manifest: MakeManifest, emulated_job: MakeJob) -> None:
    """Also where the pod of that name, which sees all others, is the first to give up."""
    job = emulated_job(pod_manifest(arguments=("--start-timeout=10",)))
    pods = [job.start(2), job.start(0), job.start(1)]
    job.publish(pods[1:])
    assert [pod.process.wait(60) for pod in pods] == [3, 3, 3]
    says = "worker 2 (digits-2.digits:20000) has a name that does not resolve"
    assert all(says in pod.said for pod in pods[1:]), logs(job)


def test_a_pod_that_is_killed_is_replaced_with_all_others(
    pod_manifest: MakeManifest, emulated_job: MakeJob, tmp_path: Path
) -> None:
    """The others end with 4 as soon as it is lost. The new ones have other addresses."""
    marks = [tmp_path / f"mark-{index}" for index in range(3)]
    job = emulated_job(pod_manifest(*(f"{i}:touch:{mark}" for i, mark in enumerate(marks)), "*:hang"), 6)
    pods = job.start_all()
    job.publish()
    until(lambda: all(mark.exists() for mark in marks))
    job.manifest = pod_manifest("*:listen")
    pods[1].process.kill()
    assert job.control() == "Complete", logs(job)
    assert [pod.code for pod in pods] == [4, 137, 4]
    assert job.failures == {0: 1, 1: 1, 2: 1} and not job.ignored
    for pod in (pods[0], pods[2]):
        assert "worker 1 (" in pod.said and "digits-1.digits:20000" in pod.said


def test_an_elastic_job_goes_on_without_a_pod_and_takes_in_the_new_one(
    pod_manifest: MakeManifest, emulated_job: MakeJob, tmp_path: Path
) -> None:
    """The processes of the other pods stay."""
    marks = [tmp_path / f"mark-{start}" for start in (0, 1)]
    first, second = (f"1@{start}:touch:{mark}" for start, mark in enumerate(marks))
    actions = [first, "*@0:train:0.05", "*@1:step:7", second, "*@1:train:0.05", "*@2:listen"]
    elastic = ("--min-workers=2", "--rejoin-timeout=1", "--grow")
    job = emulated_job(pod_manifest(*actions, arguments=elastic), 4)
    pods = job.start_all()
    job.publish()
    until(marks[0].exists)
    pods[2].process.kill()
    until(marks[1].exists, otherwise="the others do not go on")
    assert job.control() == "Complete", logs(job)
    assert [pod.code for pod in job.pods] == [0, 0, 137, 0], logs(job)
    assert job.failures == {2: 1}
    assert "can take part: the workers stop at a step" in pods[0].said


def test_a_pod_that_is_asked_to_stop_stops_all_and_nothing_is_counted(
    pod_manifest: MakeManifest, emulated_job: MakeJob
) -> None:
    """As when its node is drained: with no restart allowed the job goes on nevertheless."""
    job = emulated_job(pod_manifest("*:print:trains", "*:train:0.05", max_restarts=0, arguments=("--show=all",)), 6)
    pods = job.start_all()
    job.publish()
    until(lambda: all("trains" in pod.said for pod in pods))
    job.manifest = pod_manifest("*:listen", max_restarts=0)
    pods[2].process.send_signal(signal.SIGTERM)
    assert job.control() == "Complete", logs(job)
    assert [pod.code for pod in pods] == [143] * 3
    assert job.ignored == {0: 1, 1: 1, 2: 1} and not job.failures


def test_what_would_fail_again_is_not_started_again(pod_manifest: MakeManifest, emulated_job: MakeJob) -> None:
    job = emulated_job(pod_manifest("1:data:DataError the file is empty", "*:hang"))
    pods = job.start_all()
    job.publish()
    assert job.control() == "FailJob", logs(job)
    assert len(job.pods) == 3 and 5 in [pod.code for pod in pods]
    assert all("the file is empty" in said for said in logs(job))


def test_restarts_come_to_an_end(pod_manifest: MakeManifest, emulated_job: MakeJob) -> None:
    job = emulated_job(pod_manifest("1:raise:ValueError boom", "*:hang", max_restarts=1), 6)
    job.start_all()
    job.publish()
    assert job.control() == "MaxFailedIndexesExceeded", logs(job)
    assert max(job.failures.values()) == 2 and len(job.pods) <= 6
    assert "boom" in job.pods[0].said


def test_a_pod_that_comes_with_another_secret_is_kept_out(pod_manifest: MakeManifest, emulated_job: MakeJob) -> None:
    job = emulated_job(pod_manifest("*:hang", arguments=("--start-timeout=10",)))
    pods = [job.start(0), job.start(1)]
    job.secrets = {"token": "another one"}
    pods.append(job.start(2))
    job.publish()
    assert [pod.process.wait(60) for pod in pods] == [3, 3, 3]
    says = "worker 2 (digits-2.digits:20000) is answered by one that has another TFDIST_TOKEN"
    assert all(says in pod.said for pod in pods[:2]), logs(job)
