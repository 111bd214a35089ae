"""Starts the workers of a job on this machine and sees them to one common end, without TensorFlow.

`job.run_job` is the entry point, `job_formation` what it does before there are workers, and `job_phases` are the phases
that it goes through. In the order of a run:

- `job_spec`: what is asked for, with the `worker_options` that its workers get; `recording_request` and
  `trace_request` are what `tfdist verify` asks besides; `rehearsal/`: a few steps, of which nothing is kept
- `config_process`: something is made of a config with TensorFlow; `object_check`: what it describes is, on trial, for
  `tfdist config check`; `memory_inquiry`: a step is traced, for `tfdist plan --memory`
- `gpus/`: how many workers there are where nobody says; `gpu_emulation`: GPUs that tests have on CPUs
- `network_isolation`: whether the workers get a network of their own; `signals`: Ctrl-C and SIGTERM to the launcher
- `job_terms`: what all launchers of the job must have alike; `rendezvous/`: they find one another; `peers/`: they talk
  until its end
- `run_dir/`: the run directory is taken, and what happens is recorded there; `run_copy/`: a copy of it in a bucket
- `metrics/`: what it knows of the job is served to Prometheus
- `agent/`: the job as a state machine: starts, watches, stops and restarts the worker group;
  `requeues/`: whether a scheduler may start a run again that it has stopped
- `worker/`: one worker process and the channel to it, by the `environment` that it is given
- `logs/`: what workers print goes to their logs and to the terminal; `progress/`: how far a run from a config is
- `run_result`: how it ended
- `elastic/`: a job of which hosts may be lost is a sequence of such jobs
"""
