"""Supervision of a worker: its link to the launcher, and what passes over it.

`launcher_link` opens everything here. The `training_monitor` hears of every batch from the repaired Keras and tells the
`activity_tracker` (`activity`, with its `time_tally`), which `heartbeat` reports as the worker's state and
`ledger_writer` as its account of time; `step_rate` says how fast it trains. In the other direction come
`stop_requests`, after which all workers stop at one batch, and requests for `thread_stacks`, by the channel or as
`worker_signals`.

When a worker fails, `exception_causes` finds the error to report, `user_frames` the place in the user's code, and
`error_report` writes both; the `watchdog` does that for a worker that waits in TensorFlow for too long.
"""
