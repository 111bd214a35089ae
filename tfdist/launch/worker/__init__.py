"""One worker process, as its launcher and as the process itself see it.

By the `worker_variables` the launcher refuses an environment, or adds to it, among others the variable that makes the
worker compute by the kernels of its `kernel_choice`. It starts a `worker_process`, and gives it the config by
`config_handover`, cores by `core_binding` and its ends of the `worker_links`. By `process_termination` it ends the
process, and what that leaves behind. From its start on both talk over a socket: `channel_protocol` lists the
messages, and by the `launcher_channel` a worker also posts to the chief.
"""
