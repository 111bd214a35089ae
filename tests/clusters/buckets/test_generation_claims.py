"""Two starts of an elastic job on one bucket: the later one has the checkpoints."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.clusters.buckets.stores import RunningStore
from tests.helpers.ports import free_ports
from tests.helpers.resumable_model import write_config
from tfdist.checkpoint.checkpoint_store import open_store
from tfdist.checkpoint.generation_claim import by_generation, claim_on
from tfdist.cluster.cluster_spec import Cluster
from tfdist.cluster.membership import Membership
from tfdist.config import load_config
from tfdist.errors import RunDirError, UsageError
from tfdist.launch.elastic.elastic_job import JobSteps, run_elastic_job
from tfdist.launch.elastic.elastic_options import ElasticOptions
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.run_result import RunResult
from tfdist.launch.signals import Signals


def test_starts_at_once_get_numbers_of_their_own(url: str) -> None:
    claims = [claim_on(open_store(url).folder, str(number)) for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda claim: claim.take(), claims))
    assert sorted(taken) == [1, 2, 3, 4]
    claims[taken.index(4)].check()
    with pytest.raises(RunDirError, match="the later start has its checkpoints"):
        claims[taken.index(1)].check()


def test_two_starts_that_write_at_once_write_no_object_of_each_other(url: str) -> None:
    store = open_store(url)
    with store.writing(8, 1) as first:
        first.add("model.weights.h5", b"of the first")
        with store.writing(8, 2) as second:
            second.add("model.weights.h5", b"of the second")
    later, earlier = by_generation(store.stored())
    assert [(entry.generation, entry.path.name, entry.fault()) for entry in (earlier, later)] == [
        (1, "step-00000008", None),
        (2, "step-00000008.2", None),
    ]


@pytest.mark.parametrize("in_bucket", [True, False])
def test_half_of_the_list_is_enough_where_the_store_shuts_out_an_earlier_start(
    in_bucket: bool, url: str, moto: RunningStore, tmp_path: Path
) -> None:
    directory = url if in_bucket else str(tmp_path / "checkpoints")
    config = load_config(str(write_config(tmp_path, checkpoint={"every_steps": 5, "directory": directory})))
    membership = Membership(Cluster.parse(f"192.0.2.9:{free_ports(1)[0]},192.0.2.1:20000"), (0,))
    job = JobSpec.for_config(
        config, membership=membership, target="config.yaml", elastic=ElasticOptions(1, 0.1), start_timeout=0.2
    )
    ran: list[JobSpec] = []

    def run(spec: JobSpec, signals: Signals) -> RunResult:
        ran.append(spec)
        return RunResult(0)

    steps = JobSteps(run, lambda spec, result: None, lambda text: None)
    if in_bucket:
        assert run_elastic_job(job, steps) == 0
        assert [spec.membership.num_workers for spec in ran] == [1]
    else:
        with pytest.raises(UsageError, match="--min-workers 2 or more, or checkpoint.directory on s3://"):
            run_elastic_job(job, steps)
        assert not ran
