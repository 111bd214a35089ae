"""Starts the workers of a job on this machine and brings them to one end, without TensorFlow.

`job.run_job` is the way in. By subject:

- what is asked for, and where it runs: `job_spec`, `environment`, `network`, `settings`, `recording`, `tracing`
- the launchers find one another: `forming`, with `roll_call` (who is here) and `agreeing` (when to go); below them
  `holding` (ports), `dialing` and `connecting`, `answering`, `handshake` and `hello`, `token`, `sighting`, `progress`,
  `absence`
- they talk for the life of the job: `control` says what about, `events` in which words, `star` by which lines, `lines`
  how they travel, `waiting` how one waits for them
- the job as a state machine: `phases` is the diagram, `group` goes through it, `attempt` is one start of the workers,
  in the `surroundings` that it needs, with an `outcome`; `restarting` and `decisions` decide
- stops: `signals`, `stopping`, `halting`, `ending`
- hangs and stragglers: `hang_watch`, `hanging`, `asking`, `stragglers`
- one worker: `worker`, `process`, `allocator`, `proxies` and `keras_choice`, and the `channel` on which it speaks
- what is kept and said: `keeper`, `run_place`, `run_hold`, `bookkeeping`, `remote_states`, `journal`; `failures`,
  `memory`, `report`; `output`, `cutting`, `noise`, `terminal`, `worker_log`
"""
