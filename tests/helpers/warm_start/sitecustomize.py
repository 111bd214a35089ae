"""Hands a worker's process over to the server of `warm_workers`, before it has imported anything."""

import os
import sys

if "TESTS_WARM_WORKERS" in os.environ and sys.orig_argv[1:] == ["-m", "tfdist.training.worker"]:
    from handed_over import run_elsewhere

    run_elsewhere(os.environ.pop("TESTS_WARM_WORKERS"))
