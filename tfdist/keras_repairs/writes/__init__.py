"""The writes of a step besides what it returns: summaries, prints, files, queues, tables, what its Python functions do.

One device writes once a step, what it computes of the global batch; and nothing where code is only tried out.

- `global_values`: what replicas write, made that of the global batch, and which replica writes it
- `write_functions`: the operations of TensorFlow that write or take something away, and functions that come down to
  these or to calls of Python
"""
