"""Elastic job: a sequence of generations, of those candidates whose launchers are there. The chief's decides.

Each generation is a job as any other. When one fails, the chief's launcher waits for the others as the membership
policy says, and begins the next; its workers resume at the next step, with the same global batches in the same order.
A launcher that loses the chief's ends its part.
"""

from __future__ import annotations

from tfdist.errors import RunDirError, UsageError
from tfdist.launch.elastic.follower import ElasticFollower
from tfdist.launch.elastic.generation import JobSteps
from tfdist.launch.elastic.leader import ElasticLeader
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.signals import LauncherStopped, Signals
from tfdist.url_schemes import is_bucket


def run_elastic_job(spec: JobSpec, steps: JobSteps) -> int:
    """Runs this launcher's part of an elastic job.

    Args:
        spec: What this launcher is asked to do; its membership has the candidates.

    Returns:
        The exit code, as `run_job` has it; 3 where too few candidates are left.

    Raises:
        UsageError: The job cannot be elastic.
        PortTakenError: A port belongs to somebody else.
        FormingError: The chief's launcher cannot be reached, or was given something else.
        WorkerFailedError: The chief's launcher is gone.
        TfdistError: As `run_to_result`.
    """
    assert spec.elastic is not None, "it has options"
    if spec.network == "private":
        raise UsageError(
            "--network private is a network of this host alone, and --min-workers is for several hosts. Expected one "
            "of them. Received: both."
        )
    spec.elastic.check(spec.membership, lambda: _is_fenced(spec))
    with Signals() as signals:
        try:
            if spec.membership.has_chief:
                return ElasticLeader(spec, spec.elastic, steps, signals).run()
            return ElasticFollower(spec, steps, signals).run()
        except LauncherStopped as stopped:
            steps.say(f"stopped: {stopped}")
            return stopped.exit_code


def _is_fenced(spec: JobSpec) -> bool:
    """Whether the checkpoints' store shuts out an earlier start. Raises `RunDirError` where it does not answer."""
    directory = None if spec.config is None else spec.config.checkpoint.directory
    if directory is None or not is_bucket(directory):
        return False
    # Imported here: it loads what S3 needs.
    from tfdist.storage.conditional_create import conditional_creator

    try:
        return conditional_creator(directory).honours_condition(f"{directory}/generations")
    except OSError as error:
        raise RunDirError(
            f"checkpoint.directory {directory} cannot be used: {error}. Expected a bucket that this host can write "
            "to. Check its name, and the credentials in this environment."
        ) from error
