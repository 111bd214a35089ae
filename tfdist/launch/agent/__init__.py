"""The agent: starts this launcher's workers, watches them, and ends or restarts them together.

- `worker_group` runs the job, an `attempt` is one start of all workers, `dependencies` is what both use and
  `launcher_effects` what they do on this machine
- an attempt ends: `group_policy` decides when workers are done and whether there is another attempt
- it stops: `coordinated_stop`, after the same batch on all workers
- it fails: `exit_diagnosis` says what ended one worker, `peers.root_cause` from which worker the others follow
- it hangs or is slow: `hang_detection`, `hang_diagnosis`, which says for whom the others wait, and `stragglers`
"""
