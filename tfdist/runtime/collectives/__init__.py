"""Collectives between workers.

- `decisions`: decisions and small values of numpy that tfdist itself exchanges, between steps
- `chief_broadcast`: the chief's files and variables, copied to all workers, and those of new variables;
  `array_all_gather`: full arrays of which each worker has a shard

And those that a script calls, on values of any kind, from the top:

- `strategy_communicator`: the `communicator` of a strategy's workers, one worker's end of all collectives; it runs one
  of the `calls` in one of the groups, eagerly or traced
- `values`: what a script gives as tensors, with reductions of arrays; `json_objects` for objects
- `contracts`: what a worker says of its call, for the `agreement` of eager calls and of traced ones, which
  `traced_progress` counts
- `handles` of calls that nobody waits for
- `wire/`: groups, order and keys of calls, tensors as flat ones, and what carries these between workers
"""
