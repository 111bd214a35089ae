"""Supervision of a worker: its link to the launcher, and what passes over it.

`launcher_link` opens everything here. The repaired Keras calls the `training_monitor` for every batch; it notes them in
the `activity_tracker` (`activity`), which `heartbeat` reports as the worker's state and in the ledger. In the other
direction come `stop_requests`, for which all workers stop after the same batch, and requests for `thread_stacks`, over
the channel or as signals.

When a worker fails, `error_report` finds the error and the place in the user's code, and writes both; the `watchdog`
does that for a worker that waits in TensorFlow for too long.
"""
