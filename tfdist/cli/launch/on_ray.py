"""`tfdist launch --on ray`: a job in actors of a Ray cluster."""

from __future__ import annotations

from tfdist.cli.launch.engines import EngineCall
from tfdist.cluster.environment_variables import chosen_variables
from tfdist.errors import UsageError
from tfdist.ray.job.placement import Demand
from tfdist.ray.job.ray_job import RayJob, run_ray_job


def launch_on_ray(call: EngineCall) -> int:
    """Runs the job, and returns the exit code.

    Raises:
        UsageError: An option cannot be used as given, or Ray is not installed.
        FormingError: There is no cluster, or no room in it.
        WorkerFailedError: A node was lost.
    """
    options = call.options
    workers = call.train["nproc"]
    if workers is None:
        raise UsageError(
            "--on ray needs the number of workers. Expected --nproc N, over all nodes. Received: no --nproc"
        )
    demand = Demand(
        workers,
        options["cpus_per_worker"],
        options["gpus_per_worker"],
        options["placement"],
        options["placement_timeout"],
    )
    # --nproc is that of the whole job; a node's launcher gets the list. A script's own --nproc stays.
    kept = tuple(argument for argument in call.train_arguments if not argument.startswith("--nproc="))
    return run_ray_job(
        RayJob(
            demand,
            (*kept, *call.target.arguments),
            address=options["address"],
            directory=options["cwd"],
            variables=chosen_variables(options["env"]),
            grace=call.train["grace"],
        )
    )
