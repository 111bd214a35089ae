"""Shared memory: what the workers of one host send to each other, without a network.

- `shared_memory`: all that a worker shares
- `shared_memory_sums`: sums of tensors over all workers, on one host or on each of several
- `memory_operations`: exchanges as operations of a graph; `output_buffers` has the memory for their results
- `array_exchange`: sums and copies of arrays, frame by frame as `frame_layout` lays them out; `shard_exchange`:
  reduce-scatter and all-gather of those that are cut; `uneven_exchange`: parts of any size from each worker to each
  other one
- `host_mesh`: a worker's end of the links between the workers of its host (`tfdist.net.host_links`)
- `group_operations`: those of some of the workers, over `group_meshes`, whose links workers hand one another with the
  words in their `link_mailbox`
"""
