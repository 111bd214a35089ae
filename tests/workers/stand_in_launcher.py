"""`tfdist train` with stand-in workers, as a process of its own: the last argument is the JobSpec's fields as JSON.

The field `config` is the path of a config file, `elastic` has the options of a job that may lose hosts, `delay` is the
time before the first restart, and `silence` how long another launcher may say nothing.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tfdist.cluster import discover
from tfdist.cluster.membership import Membership
from tfdist.errors import TfdistError
from tfdist.launch.agent import group_policy
from tfdist.launch.elastic.elastic_options import ElasticOptions
from tfdist.launch.job import JobSpec, run_job, run_to_result, say_report
from tfdist.launch.peers import peer_links


def job_of(membership: Membership, config: str | None = None, **fields: Any) -> JobSpec:
    if config is None:
        return JobSpec(membership, "script", "none.py", **{"quiet": True, **fields})
    from tfdist.config import load_config

    return JobSpec.for_config(load_config(config), membership=membership, target=config, **fields)


def main() -> int:
    options = json.loads(sys.argv[1])
    group_policy.FIRST_DELAY_SECONDS = options.pop("delay", group_policy.FIRST_DELAY_SECONDS)
    peer_links.MOST_SECONDS = options.pop("silence", peer_links.MOST_SECONDS)
    peer_links.SAY_SECONDS = min(peer_links.SAY_SECONDS, peer_links.MOST_SECONDS / 5)
    try:
        membership = discover(options.pop("workers", None), options.pop("index", None), options.pop("nproc", None))
        fields = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
        if "elastic" in fields:
            fields["elastic"] = ElasticOptions(**fields["elastic"])
        code = run(job_of(membership, worker_module="tests.workers.stand_in_worker", **fields))
    except TfdistError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    loaded = sorted({"tensorflow", "keras", "numpy"} & set(sys.modules))
    if loaded:
        print(f"the launcher imported {loaded}", file=sys.stderr)
        return 99
    if not membership.remote and any(name.startswith("tfdist.launch.rendezvous") for name in sys.modules):
        print("the launcher imported the rendezvous, with nobody to meet", file=sys.stderr)
        return 99
    return code


def run(job: JobSpec) -> int:
    if job.elastic is None:
        return run_job(job)
    from tfdist.launch.elastic.elastic_job import JobSteps, run_elastic_job

    return run_elastic_job(job, JobSteps(run_to_result, say_report))


if __name__ == "__main__":
    sys.exit(main())
