"""Reports on a run, from its run directory alone: no TensorFlow, no connection to a worker.

    status/       what the run is doing: `tfdist status`
    ledger/       where its wall time went, over all restarts: `tfdist ledger`
    comparison    how several runs differ, as `tfdist board` shows them side by side

In each, a reader reads the directory, a value without clock or disk says what that means, and renderers turn it into
text for people and JSON for programs.
"""
