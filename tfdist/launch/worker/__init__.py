"""One worker process, as its launcher and as the process itself see it.

In an environment to which there are no `variable_objections`, the launcher starts a `worker_process` (behind the
protocol `worker_handle`). It adds the variables of `environment_defaults`, and the one that makes the worker compute by
the kernels of its `kernel_choice`, which depends on the `processor`; gives it the config by `config_handover`, cores by
`core_binding`, a `generated_code_dir` and its ends of the `worker_links`; and sees by a `process_sample` whether it
runs; with its options comes the `checkpoint_interval`. `orphans` are what it leaves behind. From its start on both talk
over a socket: `channel_protocol` lists the messages, `launcher_channel` is the worker's end. By the `chief_post` a
worker tells the chief's process something, over the launchers.
"""
