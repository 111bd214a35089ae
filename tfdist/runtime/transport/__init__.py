"""Transport of values between replicas and workers.

- `replica_sums`: sums over the replicas inside of a step, over `ring_all_reduce` where there is a ring
- `emulated_replicas`: replicas in threads, where a step is tried out
- `object_exchange`: texts and objects of any size, between steps
- `chief_broadcast`: the chief's files and variables, copied to all workers
"""
