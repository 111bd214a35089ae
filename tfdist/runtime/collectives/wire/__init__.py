"""Tensors on the wire: those of a call as flat tensors, and what carries these between workers.

- `transfers`: the tensors of a call as flat ones and back, of the `wire_dtypes` that engines carry
- `groups`: which workers take part, order and keys of the calls in a group, and the thread of those that nobody waits
  for
- `engine`: the primitives of an engine
- `engines`: in memory that the workers of one host share, or over TensorFlow's collectives, by a ring between hosts or
  by NCCL between GPUs
- `placement`: which tensors of a call go from GPU to GPU, alike on all its workers
- `known_rows`: over few bytes, which all workers have got with the agreement on the call
"""
