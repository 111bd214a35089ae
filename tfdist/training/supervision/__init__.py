"""Supervision of a worker: its link to the launcher, and what passes over it.

`launcher_link` opens everything here. The repaired Keras calls the `training_monitor` for every batch; it notes them in
the `activity_tracker` (`activity`), which `heartbeat` reports as the worker's state and `ledger_writer` as its account
of time. In the other direction come `stop_requests`, for which all workers stop after the same batch, and requests for
`thread_stacks`, over the channel or as `worker_signals`.

When a worker fails, `exception_causes` finds the error to report, `user_frames` the place in the user's code, and
`error_report` writes both; the `watchdog` does that for a worker that waits in TensorFlow for too long. `early_end`
ends a worker before its script does.
"""
