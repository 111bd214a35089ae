"""Starts the workers of a job on this machine and sees them to one common end, without TensorFlow.

`job.run_job` is the entry point, `job_formation` what it does before there are workers, and `job_phases` are the phases
that it goes through. In the order of a run:

- `job_spec`: what is asked for, with the `worker_options` that its workers get, and the `worker_requests` where the run
  is only tried; `rehearsed_job`: a few steps, of which nothing is kept
- `config_process`: what TensorFlow says of a config, in a process of its own, for `tfdist config check`
  and `tfdist plan --memory`
- `gpus/`: how many workers there are where nobody says
- `network_isolation`: whether the workers get a network of their own; `signals`: Ctrl-C and SIGTERM to the launcher
- `rendezvous/`: the launchers of the job find one another, and agree on its `job_terms`; `peers/`: they talk until its
  end
- `run_dir/`: the run directory is taken, and what happens is recorded there; `run_copy/`: a copy of it in a bucket
- `metrics/`: what it knows of the job is served to Prometheus
- `agent/`: the job as a state machine: starts, watches, stops and restarts the worker group;
  `requeue_policy`: whether a scheduler may start a run again that it has stopped
- `worker/`: one worker process and the channel to it, by the `environment` that it is given
- `logs/`: what workers print goes to their logs and to the terminal; `progress_display` shows how far a run from a
  config is, by the `run_progress` that the chief tells it: a line of `progress_fields`, or a `progress_bar`
- `run_result`: how it ended
- `elastic/`: a job of which hosts may be lost is a sequence of such jobs
"""
