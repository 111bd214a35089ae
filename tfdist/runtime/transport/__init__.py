"""Transport of values between replicas and workers.

- `replica_sums`: sums over the replicas inside of a step, between CPU workers over `shared_memory/` on one host and
  over `ring_all_reduce` between hosts; `compiled_sums`: those of a step that XLA compiles
- `shard_collectives`: reduce-scatter and all-gather of tensors that are cut over the workers;
  `shard_groups`: with whom a worker does that; `text_tensors`: texts as bytes
- `row_exchange`: rows of which each worker gives any number to each other one
- `worker_lane`: the keys of collectives that these run among workers
- `sum_setup`: which of these a strategy has
- `worker_sums`: sums over the workers outside of steps
- `emulated_replicas`: replicas in threads, where a step is tried out
- `object_exchange`: texts and objects of any size, between steps
"""
