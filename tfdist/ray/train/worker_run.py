"""The run of a training function in a worker of Ray Train: what `tfdist train` does around a script."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from tfdist.launch.environment import Assignment
from tfdist.rundir import State


@contextlib.contextmanager
def worker_run() -> Iterator[None]:
    """Starts this worker's session, under whose strategy the function trains; ends it with all other workers."""
    # Imported here: the driver has this function, too, and need not load TensorFlow.
    from tfdist.training.collectives_api import barrier
    from tfdist.training.script_run.strategy_adoption import adopt_strategies
    from tfdist.training.session import current_session as sessions
    from tfdist.training.supervision.error_report import report
    from tfdist.training.supervision.launcher_link import link_of
    from tfdist.training.worker import set_up_logging

    assignment = Assignment.from_environ()
    assert assignment is not None, "the backend assigns a place to each worker"
    link = link_of(assignment)
    set_up_logging(assignment)
    # Ray lets its messages through, of which there is one for each strategy and collective.
    logging.getLogger("tensorflow").setLevel(logging.WARNING)
    try:
        with contextlib.nullcontext() if link.ledger is None else contextlib.closing(link.ledger):
            session = sessions.start(assignment, sessions.requested_devices(assignment))
            adopt_strategies(session)
            yield
            # A worker that leaves early takes the others down.
            barrier()
        link.heartbeat.finish(State.FINISHED)
    except BaseException as error:
        report(error, assignment)
        raise
