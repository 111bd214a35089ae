from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clusters.kubernetes.emulated_job import EmulatedJob, PodManifest
from tfdist.multihost.kubernetes.manifest import objects
from tfdist.multihost.kubernetes.manifest_options import ManifestOptions
from tfdist.verify.hosts.namespace_hosts import NamespacesUnavailableError, namespace_hosts

MakeManifest = Callable[..., PodManifest]
MakeJob = Callable[..., EmulatedJob]


@pytest.fixture
def pod_manifest(tmp_path: Path) -> MakeManifest:
    """Makes the manifest of three workers: `pod_manifest("1:raise:ValueError boom")` of stand-ins, by what they do."""

    def make(
        *actions: str, kind: Any = "job", target: str = "train.py", arguments: tuple[str, ...] = (), **options: Any
    ) -> PodManifest:
        if target == "train.py":
            (tmp_path / target).touch()
        given: dict[str, Any] = {
            "image": "r.io/tfdist:1",
            "arguments": (*arguments, target, *actions),
            "run_dir": str(tmp_path / "runs/digits"),
            "run_dir_claim": "runs",
            "workers": 3,
            "token_secret": "hush",
        }
        return PodManifest.of(objects(ManifestOptions(kind=kind, name="digits", **{**given, **options})))

    return make


@pytest.fixture
def emulated_job(tmp_path: Path) -> Iterator[MakeJob]:
    """Makes a Job of a manifest, for so many pods in all; afterwards none of their processes is left."""
    with contextlib.ExitStack() as stack:

        def make(manifest: PodManifest, most_pods: int = 3, *, stand_in: bool = True) -> EmulatedJob:
            try:
                hosts = stack.enter_context(namespace_hosts(most_pods))
            except NamespacesUnavailableError as error:
                pytest.skip(str(error))
            job = EmulatedJob(manifest, hosts, tmp_path, {"token": "a secret of this test"}, stand_in=stand_in)
            stack.callback(job.close)
            return job

        yield make
