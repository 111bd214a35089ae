"""Read by every Python that starts with this folder in PYTHONPATH: `tfdist train` starts stand-in workers then."""

from tfdist.launch.worker import worker_process

worker_process.WORKER_MODULE = "tests.workers.stand_in_worker"
