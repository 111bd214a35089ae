"""Checkpoints of which each worker writes its shard.

The workers that hold shards of a model each write a file `weights.worker-I-of-N` with theirs; the chief writes the rest
of the file of weights, and which bytes of it are where. Together they are, byte for byte, the `model.weights.h5` of one
device, as which `joined_file` reads them.

- `joined_file`: the names of the files, and the whole, read piece by piece
- `staging_folder`: the folder in which a checkpoint is made; which workers reach it
- `chief_additions`: what workers say to the chief of their shards, and what it adds to a checkpoint
- `sharded_saving`: each worker writes its shard, in the background, or sends it to the chief where it does not reach
  the folder; and all of that, together
"""
