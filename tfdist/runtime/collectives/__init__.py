"""Collectives between workers.

- `decisions`: decisions and small values of numpy that tfdist itself exchanges, between steps

And those that a script calls, on values of any kind, from the top:

- `strategy_communicator`: the `communicator` of a strategy's workers, one worker's end of all collectives; it runs one
  of the `calls` in one of the `groups`, eagerly or traced
- `values`: what a script gives as tensors, with `numpy_reductions` for arrays; `json_objects` for objects
- `contracts`: what a worker says of its call, for the `agreement` of eager calls and the `traced_agreement` of others,
  which `traced_progress` counts
- `lanes`: order and keys of the calls in a group, and the thread of those that nobody waits for, which have `handles`
- `byte_rows`: texts of all workers; `gradients` of the results
- `wire/`: tensors as flat ones, and what carries these between workers
"""
